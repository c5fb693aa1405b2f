"""What a worker does to fit: one chain of `Tastes`, on its own sample of users, and its draws as bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.sampling.draws import ChainDraws
from bmcd.sampling.run import Run
from bmcd.sampling.schema import Problem
from bmcd.sampling.tastes.draws import TASTES, Aside, read_priors, sample_tastes_of

Arrays = dict[str, NDArray[Any]]


class ChainTask(NamedTuple):
    """All that a chain needs besides its users; the same for every chain."""

    items: list[Any]  # ids, in the order of the columns
    n_users: int  # all of them
    max_users: int
    n_tastes: int
    aside: list[tuple[Any, list[Any], Any]]  # users of whom one click is set aside: id, items left, that item
    run: Mapping[str, Any]
    model: Mapping[str, Any]  # distance, rank_scale
    priors: Mapping[str, Any]  # as describe_priors gives them


def draw_chain(rows: Any, *, task: tuple[Any, ...]) -> Any:
    """Return chain and draws of one chain as a table of one row; ``rows`` are its users in an Arrow table.

    Their columns are chain, place (a random number by which users are ordered), user and items. In whatever order
    they come, and however often it is tried, the same rows give the same draws.
    """
    import pyarrow as pa

    own = ChainTask(*task)  # it came as plain values: see on_worker
    rows = rows.sort_by([("place", "ascending"), ("user", "ascending")]).slice(0, own.max_users)
    chain = rows.column("chain")[0].as_py()
    matrix = click_matrix_of(rows.column("user").to_pylist(), rows.column("items").to_pylist(), own)
    draws = draws_of_chain(matrix, chain, own)
    return pa.table({"chain": pa.array([chain], pa.int32()), "draws": pa.array([to_bytes(draws)], pa.binary())})


def click_matrix_of(users: list[Any], lists: list[list[Any]], task: ChainTask) -> sparse.csr_array[Any]:
    """Return users x items, without the clicks that are set aside."""
    place = {own: column for column, own in enumerate(task.items)}
    hidden = {user: item for user, _, item in task.aside}
    columns = [
        sorted({place[item] for item in items} - ({place[hidden[user]]} if user in hidden else set()))
        for user, items in zip(users, lists, strict=True)
    ]
    return _matrix(columns, len(task.items))


def draws_of_chain(matrix: sparse.csr_array[Any], chain: int, task: ChainTask) -> ChainDraws:
    """Draw one chain given the clicks of its users."""
    place = {own: column for column, own in enumerate(task.items)}
    left = _matrix([sorted(place[item] for item in items) for _, items, _ in task.aside], len(task.items))
    pairs = [(row, place[item]) for row, (_, _, item) in enumerate(task.aside)]
    aside = Aside(left, np.array(pairs, np.int64).reshape(-1, 2))
    options = {} if task.max_users >= task.n_users else {"max_users": matrix.shape[0]}
    problem = Problem(task.n_users, len(task.items), task.n_tastes, "", options)
    run = Run(chains=1, first_chain=chain, n_threads=1, progress=False, **task.run)
    return sample_tastes_of(lambda _: matrix, aside, problem, run, priors=read_priors(task.priors), **task.model)


def to_bytes(draws: ChainDraws) -> bytes:
    """Return the arrays of the draws of one chain as NumPy's own file, which holds no program."""
    names = (*TASTES.traces, "warmup_log_joint", "n_tallied")
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: getattr(draws, name) for name in names})
    return file.getvalue()


def from_bytes(content: bytes) -> Arrays:
    """Return the arrays that `to_bytes` packed."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _matrix(columns: list[list[int]], n_items: int) -> sparse.csr_array[Any]:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in columns])]).astype(np.int64)
    indices = np.array([column for row in columns for column in row], np.int32)
    data: tuple[Any, ...] = (np.ones(indices.size, np.bool_), indices, starts)
    return sparse.csr_array(data, shape=(len(columns), n_items))
