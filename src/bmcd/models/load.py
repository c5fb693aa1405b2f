"""`load`: a model back from its file, of whatever kind it is."""

from __future__ import annotations

from pathlib import Path

from bmcd.errors import StoreError
from bmcd.models.blend import Blend
from bmcd.models.bmcd import BMCD
from bmcd.models.tastes import Tastes
from bmcd.sampling import store

Model = BMCD | Tastes | Blend
MODELS: dict[str, type[BMCD] | type[Tastes] | type[Blend]] = {"bmcd": BMCD, "tastes": Tastes, "blend": Blend}


def sampled_models(model: Model) -> dict[str, BMCD | Tastes]:
    """Return the models with draws by name: the model itself, or those of a blend, which may have none."""
    if isinstance(model, Blend):
        return {name: part for name, part in model.models_.items() if isinstance(part, BMCD | Tastes)}
    return {type(model).__name__: model}


def load(path: str | Path) -> Model:
    """Open a model that its `save` wrote, or raise `StoreError`.

    >>> import bmcd, tempfile
    >>> model = bmcd.BMCD(2).fit(bmcd.simulate(n_users=50, seed=1).clicks, draws=4, warmup=4, chains=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/small.bmcd")
    ...     bmcd.load(f"{folder}/small.bmcd").recommend(k=3).equals(model.recommend(k=3))
    True
    """
    stored = store.read(path, "model")
    try:
        # Files of BMCD do not name their model: there was only one when their format was made.
        kind = MODELS[stored.header["options"].get("model", "bmcd")]
        return kind.restored(stored.header, stored.arrays)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}" if isinstance(error, KeyError) else str(error)
        raise StoreError(f"{path}: is damaged or was not written by bmcd: {detail[:300]}.") from error
