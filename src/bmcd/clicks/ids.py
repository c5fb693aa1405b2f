"""Encode ids as integers in Arrow, strip whitespace around them, look ids up."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bmcd.errors import ClicksError, InputTypeError, Message, Option, UnknownIdError
from bmcd.utils import listed, shown

Missing = Literal["error", "drop"]
# Only these are turned into numbers: writing the number down gives the very same text again.
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
VARIANTS = range(0xFE00, 0xFE10)
"""Characters that choose a variant of the one before them."""


class Coded(NamedTuple):
    """A column as a code for each row, -1 where it is missing, and the ids that the codes stand for."""

    codes: NDArray[Any]
    ids: NDArray[Any]
    stripped: tuple[str, ...] = ()
    """Every spelling that had whitespace around it."""


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Return a 1-d object array also when the values are tuples, which np.array would unpack."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def encode(values: Any, column: str, missing: Missing = "error", advice: str = "") -> Coded:
    """Number the ids of a column in order of first appearance; ids that are whole numbers become int64.

    ``values`` is an Arrow or pandas column or a NumPy array. A missing or blank id is an error, or -1 with
    ``missing="drop"``. Floats that are all whole numbers, as pandas makes of integers with missing values, become
    integers; those of 2**53 or more are refused, since they may stand for another integer.

    >>> encode(np.array([7.0, np.nan, 9.0]), "item", "drop")[:2]
    (array([ 0, -1,  1], dtype=int32), array([7, 9]))
    """
    try:
        coded = _encoded(arrow_column(values), column)
    except (TypeError, ValueError) as error:  # UnicodeEncodeError, for text that is not Unicode, is a ValueError
        if isinstance(error, ClicksError):
            raise
        reason = f"the ids cannot be told apart ({error}). Use text, numbers or tuples."
        raise ClicksError(reason, column=column) from error
    blank = np.array([isinstance(v, str) and not v.strip() for v in coded.ids] if coded.ids.dtype == object else [])
    if missing == "error":
        lacks = coded.codes < 0
        if blank.any():
            lacks |= np.append(blank, False)[coded.codes]
        if lacks.any():
            row = int(lacks.argmax())
            what = "missing" if coded.codes[row] < 0 else "empty"
            reason = Message(f"the {column} id is {what} (rows count from 0).", " " if advice else "", advice)
            raise ClicksError(reason, row=row, column=column)
    return _without(coded, blank)


def encode_text(column: pa.ChunkedArray, whole: bool) -> Coded:
    """Number the ids of a text file, without whitespace around them; blank ones are -1.

    With ``whole`` they become int64 at once if none needs a closer look (see `whole_texts`).

    >>> encode_text(pa.chunked_array([["7", " 9", "", "7"]]), whole=True)
    Coded(codes=array([ 0,  1, -1,  0], dtype=int32), ids=array(['7', '9'], dtype=object), stripped=(' 9',))
    """
    if whole and (numbers := _plain_numbers(column)) is not None:
        return numbers
    coded = _encoded(column, "")
    return strip(_without(coded, np.array([not text.strip() for text in coded.ids])))


def whole_texts(column: Coded) -> Coded:
    """Turn text ids into int64 if every one is a whole number in its plain form.

    >>> whole_texts(Coded(np.array([0, 1]), objects(["7", "-9"]))).ids
    array([ 7, -9])
    >>> whole_texts(Coded(np.array([0, 1]), objects(["7", "09"]))).ids
    array(['7', '09'], dtype=object)
    """
    if column.ids.dtype == object and len(column.ids) and all(map(WHOLE.fullmatch, column.ids)):
        values = list(map(int, column.ids))
        if min(values) >= -(2**63) and max(values) < 2**63:
            return column._replace(ids=np.array(values, np.int64))
    return column


def arrow_column(values: Any) -> Any:
    """Return a column as a chunked Arrow array, or as a NumPy array of objects if Arrow would change its values."""
    import pandas as pd

    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return pa.chunked_array([values])
    own = values.to_numpy() if isinstance(values, pd.Series) and isinstance(values.dtype, np.dtype) else values
    kind: Any = None
    if own.dtype == object:
        inferred = pd.api.types.infer_dtype(own, skipna=True)
        kind = {"string": pa.string(), "integer": pa.int64(), "floating": pa.float64()}.get(inferred, "other")
    try:
        if kind == "other":
            raise TypeError
        found = pa.array(own, type=kind, from_pandas=True)
    except UnicodeEncodeError:
        raise
    except (TypeError, ValueError, NotImplementedError, OverflowError, pa.ArrowException):
        return np.asarray(own, dtype=object)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _encoded(column: Any, name: str) -> Coded:
    """Return the codes of an Arrow column or an array of objects, -1 where there is nothing."""
    if isinstance(column, np.ndarray):
        import pandas as pd

        codes, found = pd.factorize(column)
        return Coded(codes.astype(np.int32), whole_numbers(pd.Series(found).astype(object).to_numpy()))
    kind = column.type
    if str(kind) == "string_view":
        column, kind = column.cast(pa.large_string()), pa.large_string()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if pa.types.is_null(kind):
        return Coded(np.full(len(column), -1, np.int32), np.empty(0, np.int64))
    if pa.types.is_floating(kind):
        column = _whole_floats(column, name)
        kind = column.type
    if pa.types.is_integer(kind) and (kind != pa.uint64() or (pc.max(column).as_py() or 0) < 2**63):
        return _encoded_numbers(column)
    if pa.types.is_dictionary(kind):  # others may have values twice, missing or unused
        return _encoded(column.cast(kind.value_type), name)
    if is_text or pa.types.is_floating(kind) or kind == pa.uint64():
        # One array is encoded in half the time of many; text beyond 2 GiB does not fit into one.
        own = column.cast(pa.large_string()) if is_text and column.nbytes >= 2**31 else column
        encoded = own.combine_chunks().dictionary_encode()
        pieces = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    else:  # such as dates: as the objects that they are in pandas
        return _encoded(column.to_pandas().astype(object).to_numpy(), name)
    if not pieces:
        return Coded(np.empty(0, np.int32), np.empty(0, np.int64))
    codes = np.concatenate([piece.indices.fill_null(-1).to_numpy() for piece in pieces])
    return Coded(codes, objects(pieces[0].dictionary.to_pylist()))


def _encoded_numbers(column: pa.ChunkedArray) -> Coded:
    known = None if column.null_count == 0 else column.is_valid().to_numpy()
    values = column.cast(pa.int64()) if known is None else column.cast(pa.int64()).drop_null()
    if len(values) == 0:
        return Coded(np.full(len(column), -1, np.int32), np.empty(0, np.int64))
    bounds = pc.min_max(values).as_py()
    low, high = bounds["min"], bounds["max"]
    if high - low < 4 * len(values) + 1000:  # a table of all numbers between is faster than hashing
        codes = np.concatenate([(piece.to_numpy() - low).astype(np.int32) for piece in values.chunks])
        found = Coded(codes, np.arange(low, high + 1))
    else:
        encoded = pa.concat_arrays(values.chunks).dictionary_encode()
        found = Coded(encoded.indices.to_numpy(), encoded.dictionary.to_numpy())
    found = by_appearance(found)
    if known is None:
        return found
    codes = np.full(len(column), -1, np.int32)
    codes[known] = found.codes
    return found._replace(codes=codes)


def _whole_floats(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return floats as int64 if all are whole numbers, else as they are; NaN is missing."""
    column = column.cast(pa.float64())
    column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    values = column.drop_null().to_numpy()
    if not len(values) or not np.isfinite(values).all() or (np.floor(values) != values).any():
        return column
    largest = values[np.abs(values).argmax()]
    if abs(largest) >= 2**53:
        raise ClicksError(
            f"the {name} ids are floating-point numbers such as {largest:.0f}. From 2**53 on these do not hold "
            "every integer, so different ids may have become one. Read the column as integers (in pandas: dtype "
            "'Int64') or as text.",
            column=name,
        )
    return column.cast(pa.int64())


def _plain_numbers(column: pa.ChunkedArray) -> Coded | None:
    """Return text as int64 if all of it is whole numbers in their plain form, and nothing is blank."""
    try:
        numbers = column.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    # Arrow also reads 007, -0 and 0x1F. The first two are longer than the number written down.
    if len(numbers) == 0 or any(
        b"x" in (data := chunk.buffers()[2].to_pybytes()) or b"X" in data for chunk in column.chunks
    ):
        return None
    coded = _encoded_numbers(numbers)
    lengths = pc.binary_length(pa.array(coded.ids).cast(pa.string())).to_numpy()
    plain = int((lengths * np.bincount(coded.codes, minlength=len(lengths))).sum())
    return coded if plain == pc.sum(pc.binary_length(column)).as_py() else None


def whole_numbers(ids: NDArray[Any]) -> NDArray[Any]:
    """Return ids as int64 if all are whole numbers, else as they are."""
    whole = all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) and -(2**63) <= v < 2**63 for v in ids)
    return ids.astype(np.int64) if whole else ids


def strip(column: Coded) -> Coded:
    """Strip whitespace around text ids, which may make two of them one.

    >>> strip(Coded(np.array([0, 1, 2]), objects(["a", "b", "a "])))
    Coded(codes=array([0, 1, 0], dtype=int32), ids=array(['a', 'b'], dtype=object), stripped=('a ',))
    """
    if column.ids.dtype != object:
        return column
    texts = [value.strip() if isinstance(value, str) else value for value in column.ids]
    changed = tuple(old for old, new in zip(column.ids, texts, strict=True) if old is not new and old != new)
    if not changed:
        return column
    code = {value: number for number, value in enumerate(dict.fromkeys(texts))}
    return Coded(np.array([*map(code.get, texts), -1], np.int32)[column.codes], objects(list(code)), changed)


def _without(column: Coded, blank: NDArray[Any]) -> Coded:
    """Take some ids away: their rows have none."""
    if not blank.any():
        return column
    codes = np.append(np.where(blank, -1, np.cumsum(~blank) - 1), -1).astype(np.int32)[column.codes]
    return column._replace(codes=codes, ids=whole_numbers(column.ids[~blank]))


def by_appearance(column: Coded) -> Coded:
    """Number the ids that occur in order of first appearance.

    >>> by_appearance(Coded(np.array([2, -1, 0, 2], np.int32), np.array([7, 8, 9])))[:2]
    (array([ 0, -1,  1,  0], dtype=int32), array([9, 7]))
    """
    codes, n_rows, n_ids = column.codes, len(column.codes), len(column.ids)
    index = np.int32 if n_rows < 2**31 else np.int64
    first = np.full(n_ids + 1, n_rows, index)  # the last is for -1
    first[codes[::-1]] = np.arange(n_rows, dtype=index)[::-1]
    is_first = np.zeros(n_rows + 1, np.bool_)
    is_first[first[:-1]] = True
    order = codes[is_first[:-1]]
    new = np.full(n_ids + 1, -1, np.int32)
    new[order] = np.arange(len(order))
    return Coded(new[codes], column.ids[order], column.stripped)


def lookalikes(ids: NDArray[Any]) -> list[tuple[str, str]]:
    """Return pairs of ids that differ only in Unicode normalisation or by characters that cannot be seen.

    >>> lookalikes(objects(["zo\u00e9", "zoe\u0301", "ann", "ann\u200b", "bob"]))
    [('zo\u00e9', 'zoe\u0301'), ('ann', 'ann\u200b')]
    """
    if ids.dtype != object:
        return []
    texts = [value for value in ids.tolist() if isinstance(value, str)]
    special = [text for text in texts if not text.isascii()]
    known = {text: text for text in texts}
    if not special:
        return []
    invisible, found = _invisible(), []
    for text in special:
        plain = unicodedata.normalize("NFC", text.translate(invisible))
        if plain != text and known.setdefault(plain, text) != text:
            found.append((known[plain], text))
    return found


@cache
def _invisible() -> dict[int, None]:
    """Return a table for `str.translate` that removes what is not shown, such as zero-width characters."""
    formats = (code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf")
    return dict.fromkeys([*formats, *VARIANTS])


def distinct(values: list[Any], what: str, length: int) -> Coded:
    """Return the ids given for one side of a matrix, which must be as many and all different."""
    if len(values) != length:
        raise ClicksError(f"the matrix has {length} {what}s, but {len(values)} {what} ids were given.")
    column = encode(objects(values), what, advice=f"Every {what} of the matrix needs an id.")
    if len(column.ids) < length:
        twice = column.ids[np.bincount(column.codes).argmax()]
        raise ClicksError(f"the {what} id {shown(twice)} is given more than once. Ids must differ.", column=what)
    return column


def id_ranks(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each id when they are sorted; ids that cannot be compared are sorted by type and text.

    >>> id_ranks(np.array(["b", "a", 3], dtype=object)).tolist()
    [2, 1, 0]
    """
    if ids.dtype != object:
        order: Any = np.argsort(ids, kind="stable")
    else:
        own = ids.tolist()
        try:
            order = sorted(range(len(own)), key=own.__getitem__)
        except TypeError:
            order = sorted(range(len(own)), key=lambda i: (type(own[i]).__name__, repr(own[i])))
    ranks = np.empty(len(ids), np.int64)
    ranks[order] = np.arange(len(ids))
    return ranks


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate, which no file and no frame can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def places_of(known: NDArray[Any]) -> dict[Any, int]:
    """Return where each id stands."""
    return {value: number for number, value in enumerate(known.tolist())}


def positions(
    wanted: Iterable[Any], known: NDArray[Any], what: str, hint: str = "", place: Mapping[Any, int] | None = None
) -> NDArray[np.int64]:
    """Return where each id wanted stands among those known; `UnknownIdError` lists those that are not there.

    ``place`` are the `places_of` those known, if somebody has kept them.
    """
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise InputTypeError(f"{what}s must be a list of ids, such as [{shown(wanted)}], not {shown(wanted)}.")
    place = places_of(known) if place is None else place
    ids = [value.item() if isinstance(value, np.generic) else value for value in wanted]
    if unknown := [value for value in ids if value not in place]:
        count = f"{len(unknown)} of {len(ids)} {what}s are" if len(ids) > 1 else f"the {what} is"
        said = (
            f"{count} not known: {listed([shown(value) for value in unknown])}. The {what} ids look like "
            f"{listed([shown(value) for value in known[:3]])}. "
        )
        raise UnknownIdError(Message(said, hint))
    return np.array([place[value] for value in ids], np.int64)


def texts_of(known: NDArray[Any]) -> dict[str, Any]:
    """Return each id by its text; where 7 and "7" are both ids, "7" means the text."""
    own = known.tolist()
    return {str(value): value for value in own} | {value: value for value in own if isinstance(value, str)}


def how_to_drop(needed: str = "a user and an item") -> Message:
    """Say what every row needs, and what to do about those that lack it."""
    return Message(f"Every row needs {needed}. Leave out those without it with ", Option("missing", "drop"), ".")
