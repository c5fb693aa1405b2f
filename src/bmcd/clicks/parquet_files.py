"""Parquet files, also as .gz: the columns that are wanted."""

from __future__ import annotations

import gzip
from typing import Any

from bmcd.clicks.decoding import opened
from bmcd.clicks.headers import Names, wrong_header
from bmcd.errors import ClicksError


def read_parquet(file: str, names: Names) -> Any:
    """Return an Arrow table of the columns that `names` chooses from all, by the argument that names each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with opened(file) as source:
        try:
            whole = pa.BufferReader(source.read()) if isinstance(source, gzip.GzipFile) else source
            with pq.ParquetFile(whole, page_checksum_verification=True) as parquet:
                have = parquet.schema_arrow.names
                wanted = names(have)
                if wrong := wrong_header(have, wanted):
                    raise ClicksError(wrong.reason, column=wrong.name)
                table = parquet.read(columns=list(wanted.values()))
                table.validate(full=True)
                return table
        except ClicksError:
            raise
        except Exception as error:  # damaged files make pyarrow raise errors of many kinds
            raise ClicksError(
                f"the parquet file is damaged or is none ({str(error)[:200]}). Write it anew."
            ) from error
