"""BMCD, the estimator: fit clicks, recommend items, each with the probability that it is among the next k."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference import diagnostics
from bmcd.inference.arviz import mixture_tree
from bmcd.inference.draws import Draws
from bmcd.inference.mixture import Priors
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.run import Run
from bmcd.models.bmcd_predictor import BMCDPredictor
from bmcd.models.choose import choose_n_clusters
from bmcd.models.estimator import clone
from bmcd.models.persistence import Packed
from bmcd.models.shared_fit import Fit, SampledModel, draws_and_sample, earlier_fit, some_users, warn_about_fit
from bmcd.models.stored_draws import pack_mixture, unpack_mixture
from bmcd.models.top_k import check_k
from bmcd.progress import tell

# k for which other distances than the footrule count, unless `fit` is given others.
COUNTED = (5, 10)


class BMCD(SampledModel):
    """Bayesian Mallows for clicking data.

    Every user has a latent ranking of all items in which the clicked ones come first; users fall into clusters,
    each with a consensus ranking. `fit` draws from the posterior of all latent variables. `recommend` returns
    the items most probable to be among a user's next k.

    Parameters
    ----------
    n_clusters
        How many clusters. "auto" tries 2 to 8, then more while the largest is best (up to 64), and takes the one
        that `choose_n_clusters` recommends; `choice_` has the reason.
    distance
        Of the Mallows model: "footrule" (exact, fast), or another of `bmcd.mallows.DISTANCES` with sampler="paper".
    rank_scale
        "linear", "sqrt" or "log" spacing of the ranks, or n increasing numbers; see `docs/model.md`.
    priors
        Prior distributions, a `bmcd.Priors`; by default `Priors()`.
    sampler
        "exact" or "paper", see `bmcd.inference.posterior.sample_posterior`.
    start
        Where chains start: "kmeans", "popularity" or "random".
    alpha_update, ranks_move
        Options of the paper's sampler.

    Attributes
    ----------
    clicks_ : the clicks it was fitted to (without users, if it was saved without them)
    n_clusters_ : how many clusters there are
    choice_ : the result of `choose_n_clusters`, with n_clusters="auto"
    sample_ : the number of users of each chain and the reason, a `UserSample`; None if all of them
    draws_ : the posterior draws, a `Draws`
    converged_, verdict_ : whether the chains have converged, and a verdict in words with advice
    clusters_ : a summary of each cluster, a `ClusterSummaries`

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> model = bmcd.BMCD(n_clusters=3).fit(simulation.clicks, draws=20, warmup=20, chains=2, seed=1)
    >>> model
    BMCD(n_clusters=3), fitted to 300 users x 50 items: 2 chains x 20 draws, not converged
    >>> model.recommend(k=2, users=[7]).columns.tolist()
    ['user', 'item', 'rank', 'probability', 'mcse']
    """

    draws_: Draws
    _answers: BMCDPredictor
    _number, _predictor = "n_clusters", BMCDPredictor

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        distance: str = "footrule",
        rank_scale: str | ArrayLike = "linear",
        priors: Priors | None = None,
        sampler: str = "exact",
        start: str = "kmeans",
        alpha_update: int = 10,
        ranks_move: str = "swap",
    ) -> None:
        self.n_clusters = n_clusters
        self.distance = distance
        self.rank_scale = rank_scale
        self.priors = priors
        self.sampler = sampler
        self.start = start
        self.alpha_update = alpha_update
        self.ranks_move = ranks_move

    def fit(
        self,
        clicks: Any,
        *,
        draws: int = 200,
        warmup: int = 200,
        chains: int = 4,
        thin: int = 1,
        seed: int = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        max_time: float | None = None,
        count_k: Iterable[int] | None = None,
        start: BMCD | None = None,
        max_users: int | Literal["auto"] | None = None,
    ) -> BMCD:
        """Draw from the posterior given the clicks, and return self. Earlier results are discarded.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item.
        draws, warmup, chains, thin
            Each chain does ``warmup`` sweeps, then keeps one of every ``thin`` until there are ``draws``.
            Probabilities are averaged over the chains, which start apart: real data have several modes, and the
            average is better than any chain.
        seed
            The same seed gives the same draws, whatever the number of threads.
        n_threads, progress
            Chains at a time (default: as many as cores); a bar (default: if standard error is a terminal).
        checkpoint
            Checkpoint file; an interrupted fit resumes from it with identical results.
        max_time
            Seconds after which to stop with what has been drawn. (Choosing the number of clusters does not count.)
        count_k
            Only for other distances than the footrule: the k that `recommend` will be asked for (5 and 10).
        start
            A model fitted to earlier clicks, at whose draws the chains start: the clusters stay the same.
            Users and items may differ; new items are placed by their clicks. "auto" keeps its number of clusters.
        max_users
            Maximum number of users per chain; each chain draws its own random sample. "auto" finds out how many
            are enough, by doubling until held-out clicks gain less than a standard error (`sample_`). All users are
            served from their own clicks. For the footrule.
        """
        run = Run(draws, warmup, chains, thin, seed, n_threads, progress, checkpoint, max_time=max_time)
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        choice = None
        previous, n_clusters = earlier_fit(BMCD, start, clicks, self.n_clusters)
        if isinstance(n_clusters, str):
            if n_clusters != "auto":
                raise InputError(f"n_clusters must be a whole number or 'auto', but it is {n_clusters!r}.")
            if self.distance != "footrule":
                raise InputError("n_clusters='auto' is for the footrule: give a number for other distances.")
            choice = choose_n_clusters(
                some_users(clicks, max_users, seed),
                priors=self.priors,
                rank_scale=self.rank_scale,
                seed=seed,
                n_threads=n_threads,
                progress=progress,
            )
            n_clusters = choice.recommended
            tell(progress, choice.reason)
        counted = () if self.distance == "footrule" else COUNTED
        model: dict[str, Any] = {
            "priors": self.priors,
            "distance": self.distance,
            "rank_scale": self.rank_scale,
            "sampler": self.sampler,
            "start": self.start,
            "count_k": counted if count_k is None else tuple(check_k(k) for k in count_k),
            "alpha_update": self.alpha_update,
            "ranks_move": self.ranks_move,
            "previous": previous,
        }
        if max_users is not None and self.distance != "footrule":
            raise InputError(
                "max_users is for the footrule: other distances count for the users that a chain sees, and for "
                "no others."
            )

        def draw(some: Clicks, how: Run, size: int | None, _is_trial: bool) -> Draws:
            return sample_posterior(some, n_clusters, how, max_users=size, **model)

        drawn, sample = draws_and_sample(clicks, max_users, run, BMCDPredictor, draw)
        self._learn(Fit(clicks, drawn, choice, sample, {}))
        warn_about_fit(self.verdict_, drawn, choice.edge_in_words if choice else "")
        return self

    def diagnostics(self) -> Any:
        """Return R-hat, effective sample sizes and Monte Carlo errors of what cluster numbers do not change."""
        return diagnostics.table(self.check_fitted().draws_, self.clicks_)

    def to_arviz(
        self,
        *,
        users: bool = True,
        max_draws: int | None = None,
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Any:
        """Return the draws as ArviZ takes them: a DataTree, or the InferenceData of ArviZ before version 1.

        Clusters are matched between draws and chains and numbered as in `clusters_`, so that R-hat of alpha, tau
        and rho means something. With ``users`` there are also

        * ``log_likelihood``: of each user's clicks, label and latent ranking summed out, for `arviz.loo`;
        * ``posterior`` membership: the probability of each label, given the draw;
        * ``observed_data`` and ``posterior_predictive`` clicks_per_item: what was clicked, and what the same users
          would click with the same numbers of clicks.

        These take about 10 microseconds for each user, cluster and draw, and 4 bytes. (Other distances than the
        footrule, and models saved without users, have only what was observed, or none of it.)

        Parameters
        ----------
        max_draws
            How many draws to take over all chains, evenly spaced; by default all.
        """
        draws, names = self.check_fitted().draws_, self._answers.names()
        return mixture_tree(draws, names, self.clicks_, users, max_draws, n_threads, progress)

    def packed(self, *, clicks: bool = True) -> Packed:
        """Return header and arrays of the file that `save` writes."""
        draws, names = self.check_fitted().draws_, self._answers.cluster_names
        options = {name: getattr(self, name) for name in ("n_clusters", "alpha_update", "ranks_move")}
        fit = Fit(self.clicks_, draws, self.choice_, self.sample_, names)
        return pack_mixture(fit, options, clicks and self.clicks_.n_users > 0)

    def with_choice(self) -> BMCD:
        """Return a model that is not fitted, with the number of clusters that "auto" has chosen."""
        model: BMCD = clone(self)
        model.set_params(n_clusters=self.check_fitted().n_clusters_)
        return model

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> BMCD:
        """Return the model that `save` wrote as this header and these arrays; see `bmcd.load`."""
        parameters, fit = unpack_mixture(header, arrays)
        model = cls(**parameters)
        model._learn(fit)
        return model
