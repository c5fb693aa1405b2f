"""What a worker does to recommend: Arrow batches of users with their items in, batches of recommendations out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bmcd.errors import ShortListWarning
from bmcd.spark.shipping import opened


def score(batches: Iterable[Any], *, name: str, k: int, options: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the recommendations for the users of each batch, by the model shipped under this name."""
    model = opened(name)
    for batch in batches:
        if batch.num_rows:
            yield _scored(batch, model, k, options)


def _ordered(batch: Any) -> Any:
    """Return the histories of a batch as a table with times; users are the numbers of its rows."""
    import numpy as np
    import pyarrow as pa

    items, times = batch.column("items"), batch.column("times")
    user = np.repeat(np.arange(batch.num_rows), np.diff(items.offsets.to_numpy()))
    return pa.table({"user": user, "item": items.flatten(), "time": times.flatten().cast(pa.timestamp("us"))})


def _scored(batch: Any, model: Any, k: int, options: Mapping[str, Any]) -> Any:
    import narwhals as nw
    import pyarrow as pa

    histories = _ordered(batch) if "times" in batch.schema.names else batch.column("items").to_pylist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortListWarning)  # in the log of a worker nobody would read it
        found = model.recommend_for(histories, k, n_threads=1, progress=False, **options)
    table = nw.from_native(found, eager_only=True)
    columns = {"user": batch.column("user").take(pa.array(table["user"].to_numpy()))}
    kinds = {"item": pa.int64() if model.clicks_.items.dtype != object else pa.string()}
    kinds |= {"title": pa.string()} if "title" in table.columns else {}
    columns |= {column: pa.array(table[column].to_list(), kind) for column, kind in kinds.items()}
    columns |= {"rank": pa.array(table["rank"].to_numpy(), pa.int64())}
    columns |= {column: pa.array(table[column].to_numpy(), pa.float64()) for column in ("probability", "mcse")}
    return pa.RecordBatch.from_pydict(columns)
