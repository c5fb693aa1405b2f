"""Tastes, the estimator for real click logs: several tastes per user, exact, in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference.arviz import taste_tree
from bmcd.inference.run import Run
from bmcd.inference.tastes.draws import TasteDraws, diagnostics_table, read_priors, sample_tastes
from bmcd.inference.tastes.priors import TastePriors
from bmcd.models.choose import choose_tastes, ends_of_tastes
from bmcd.models.estimator import clone
from bmcd.models.persistence import Packed
from bmcd.models.shared_fit import Fit, SampledModel, draws_and_sample, earlier_fit, some_users, warn_about_fit
from bmcd.models.stored_draws import pack_tastes, unpack_tastes
from bmcd.models.taste_predictor import TastePredictor
from bmcd.progress import tell


class Tastes(SampledModel):
    """A Mallows model in which a user has several tastes.

    User j visits taste c at rate lambda_jc ~ Gamma(a, b). On every visit the user draws a fresh ranking from the
    Mallows model of the taste and clicks its first item; the clicks are the items clicked at least once. Their law
    is exact, no latent ranking is sampled, and the time of a fit is proportional to clicks x tastes. See
    docs/tastes.md.

    Parameters
    ----------
    n_tastes
        How many tastes. "auto" chooses tastes and concentration by held-out clicks; `choice_` has the reason.
    distance
        "footrule", "kendall", "cayley" or "hamming": those whose law of the first item is exact and cheap.
    rank_scale
        "linear", "sqrt" or "log" spacing of the ranks, or n increasing numbers; for the footrule.
    priors
        Prior distributions, a `bmcd.TastePriors`; by default `TastePriors()`.
    chains
        How many chains are averaged. Every chain finds different tastes, and their average is better than any.

    Attributes
    ----------
    clicks_ : the clicks it was fitted to (without users, if it was saved without them)
    n_tastes_ : how many tastes there are
    choice_ : the result of `choose_tastes`, with n_tastes="auto"
    sample_ : the number of users of each chain and the reason, a `UserSample`; None if all of them
    draws_ : the posterior draws, a `TasteDraws`
    converged_, verdict_ : whether other or longer chains would change the probabilities, and a verdict in words
    clusters_ : a summary of each taste of the best chain, a `ClusterSummaries`

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.simulate(n_users=300, seed=1).clicks
    >>> model = bmcd.Tastes(n_tastes=4, chains=4).fit(clicks, draws=4, warmup=20, seed=1)
    >>> model
    Tastes(n_tastes=4, chains=4), fitted to 300 users x 50 items: 4 chains x 4 draws, not converged
    >>> model.recommend(k=2, users=[7]).columns.tolist()
    ['user', 'item', 'rank', 'probability', 'mcse']
    """

    draws_: TasteDraws
    _answers: TastePredictor
    _number, _predictor = "n_tastes", TastePredictor

    def __init__(
        self,
        n_tastes: int | Literal["auto"] = 40,
        *,
        distance: str = "footrule",
        rank_scale: str | ArrayLike = "linear",
        priors: TastePriors | None = None,
        chains: int = 16,
    ) -> None:
        self.n_tastes = n_tastes
        self.distance = distance
        self.rank_scale = rank_scale
        self.priors = priors
        self.chains = chains

    def fit(
        self,
        clicks: Any,
        *,
        draws: int = 10,
        warmup: int = 100,
        chains: int | None = None,
        thin: int = 10,
        seed: int = 0,
        n_threads: int | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        max_time: float | None = None,
        set_aside: bool = True,
        start: Tastes | None = None,
        max_users: int | Literal["auto"] | None = None,
    ) -> Tastes:
        """Draw from the posterior given the clicks, and return self. Earlier results are discarded.

        Parameters
        ----------
        clicks
            A `Clicks`, or a frame with the columns user and item.
        draws, warmup, chains, thin
            Each chain does ``warmup`` sweeps, then keeps one of every ``thin`` until there are ``draws``. Few draws
            of many chains are better than the other way round.
        seed
            The same seed gives the same draws, whatever the number of threads.
        n_threads, progress
            Chains at a time (default: as many as cores); a bar (default: if standard error is a terminal).
        checkpoint
            Checkpoint file; an interrupted fit resumes from it with identical results.
        max_time
            Seconds after which to stop with what has been drawn. (Choosing the number of tastes does not count.)
        set_aside
            Whether the chains do not see one click of each of up to 200 users (of a tenth of them at most), whose
            log probability shows whether they still improve. With False they see every click, and `verdict_`
            reports whether other chains would change the probabilities, but no longer whether longer ones would.
        start
            A model fitted to earlier clicks, at whose tastes the chains start: users and items
            may differ; new items are placed by their clicks. "auto" keeps its tastes and concentration.
        max_users
            Maximum number of users per chain; each chain draws its own random sample. "auto" finds out how many
            are enough, by doubling until held-out clicks gain less than a standard error (`sample_`). All users are
            served from their own clicks.
        """
        n_chains = self.chains if chains is None else chains
        run = Run(draws, warmup, n_chains, thin, seed, n_threads, progress, checkpoint, max_time=max_time)
        clicks = clicks if isinstance(clicks, Clicks) else Clicks.from_frame(clicks)
        choice, priors = None, TastePriors() if self.priors is None else self.priors
        previous, n_tastes = earlier_fit(Tastes, start, clicks, self.n_tastes)
        if start is not None and self.n_tastes == "auto":
            priors = read_priors(start.draws_.problem.options)
        model: dict[str, Any] = {"distance": self.distance, "rank_scale": self.rank_scale}
        if isinstance(n_tastes, str):
            if n_tastes != "auto":
                raise InputError(f"n_tastes must be a whole number or 'auto', but it is {n_tastes!r}.")
            choice = choose_tastes(some_users(clicks, max_users, seed), run, priors=priors, **model)
            n_tastes, priors = choice.n_tastes, choice.priors
            tell(progress, choice.reason)
        model |= {"priors": priors, "previous": previous}

        def draw(some: Clicks, how: Run, size: int | None, is_trial: bool) -> TasteDraws:
            aside = set_aside and not is_trial
            return sample_tastes(some, n_tastes, how, aside=aside, max_users=size, **model)

        drawn, sample = draws_and_sample(clicks, max_users, run, TastePredictor, draw)
        self._learn(Fit(clicks, drawn, choice, sample, {}))
        at_the_edge = choice is not None and n_tastes in ends_of_tastes(clicks.n_items)
        edge = f"n_tastes='auto' ended at the edge of what it tries, {n_tastes}." if at_the_edge else ""
        warn_about_fit(self.verdict_, drawn, edge)
        return self

    def _learn(self, fit: Fit) -> None:
        super()._learn(fit)
        self.n_tastes_ = self.n_clusters_

    def diagnostics(self) -> Any:
        """Return R-hat, effective sample sizes and Monte Carlo errors of what taste numbers do not change.

        Chains sit in different modes, so R-hat is large for many of them and means little; see `verdict_`.
        """
        return diagnostics_table(self.check_fitted().draws_)

    def to_arviz(self, *, users: bool = True, max_draws: int | None = None) -> Any:
        """Return the draws as ArviZ takes them: a DataTree, or the InferenceData of ArviZ before version 1.

        The tastes of every chain are matched with those in `clusters_` and numbered like them. With ``users`` there
        are also ``observed_data``, and as ``posterior_predictive`` the clicks_per_item of as many new users.
        There is no log-likelihood: the rates of a user cannot be summed out in closed form.

        Parameters
        ----------
        max_draws
            How many draws to take over all chains, evenly spaced; by default all.
        """
        return taste_tree(self.check_fitted().draws_, self._answers.order(), self.clicks_, users, max_draws)

    def packed(self, *, clicks: bool = True) -> Packed:
        """Return header and arrays of the file that `save` writes."""
        draws, names = self.check_fitted().draws_, self._answers.cluster_names
        fit = Fit(self.clicks_, draws, self.choice_, self.sample_, names)
        return pack_tastes(fit, self.n_tastes, clicks and self.clicks_.n_users > 0)

    def with_choice(self) -> Tastes:
        """Return a model that is not fitted, with the tastes and the concentration that "auto" has chosen."""
        model: Tastes = clone(self)
        priors = read_priors(self.check_fitted().draws_.problem.options)
        model.set_params(n_tastes=self.n_tastes_, priors=priors)
        return model

    @classmethod
    def restored(cls, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Tastes:
        """Return the model that `save` wrote as this header and these arrays; see `bmcd.load`."""
        parameters, fit = unpack_tastes(header, arrays)
        model = cls(**parameters)
        model._learn(fit)
        return model
