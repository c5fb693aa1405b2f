from math import comb, factorial, lgamma

import mpmath
import numpy as np
import pytest
from tests.reference.mallows import expected_distance_enumerated, log_partition_enumerated

from bmcd.errors import EstimateWarning
from bmcd.mallows import exact_partition
from bmcd.mallows.distances import DISTANCES
from bmcd.mallows.partition import expected_distance, log_partition
from bmcd.mallows.rank_scale import scale_values

ALPHAS = [0.0, 1e-9, 0.1, 1.0, 3.0, 10.0, 50.0, 200.0]
CLOSED = ("kendall", "cayley", "hamming")
names = pytest.mark.parametrize("distance", DISTANCES)
closed = pytest.mark.parametrize("distance", CLOSED)


def assert_same_as_enumerated(n, distance, scale="linear"):
    g = None if scale == "linear" else scale_values(n, scale).tolist()
    # The footrule's scan adds the consensus' weight 1 to the rest: a log Z below 1e-4 keeps 1e-14 absolutely.
    absolute = 1e-14 if distance == "footrule" else 0.0
    for alpha in ALPHAS:
        assert log_partition(n, alpha, distance, scale, method="exact") == pytest.approx(
            log_partition_enumerated(n, alpha, distance, g), rel=1e-10, abs=absolute
        ), alpha
        assert expected_distance(n, alpha, distance, scale, method="exact") == pytest.approx(
            expected_distance_enumerated(n, alpha, distance, g), rel=1e-10, abs=absolute
        ), alpha


@names
@pytest.mark.parametrize("n", range(1, 8))
def test_exact_equals_enumeration(n, distance):
    assert_same_as_enumerated(n, distance)


@pytest.mark.parametrize("scale", ["sqrt", "log"])
@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_stretched_footrule_equals_enumeration(n, scale):
    assert_same_as_enumerated(n, "footrule", scale)


@pytest.mark.deep
@names
def test_exact_equals_enumeration_at_eight(distance):
    assert_same_as_enumerated(8, distance)


@pytest.mark.parametrize(
    ("n", "alpha", "value"),
    [
        (50, 1, 132.976888),
        (50, 3, 108.682043),
        (50, 5, 91.343225),
        (50, 10, 64.015148),
        (100, 1, 332.700967),
        (100, 3, 283.869626),
        (100, 5, 248.772633),
        (100, 10, 192.649938),
        (200, 1, 801.124920),
        (200, 3, 703.244278),
        (200, 5, 632.671477),
        (200, 10, 519.142994),
    ],
)
def test_footrule_reference_values(n, alpha, value):
    assert log_partition(n, alpha) == pytest.approx(value, abs=6e-7)  # given to six decimals


def test_footrule_mean_by_integer_counts():
    """508.452735...: from the number of permutations of 50 at each footrule distance, in whole numbers."""
    counts = {0: {0: 1}}
    for t in range(50):
        after = {}
        for m, polynomial in counts.items():
            for to, ways in ((m + 1, 1), (m, 2 * m + 1), (m - 1, m * m)):
                if ways and to <= 49 - t:
                    row = after.setdefault(to, {})
                    for d, count in polynomial.items():
                        row[d + 2 * to] = row.get(d + 2 * to, 0) + count * ways
        counts = after
    assert sum(counts[0].values()) == factorial(50)
    with mpmath.workdps(40):
        weights = {d: count * mpmath.exp(-mpmath.mpf(3) / 50 * d) for d, count in counts[0].items()}
        total = mpmath.fsum(weights.values())
        mean = float(mpmath.fsum(d * w for d, w in weights.items()) / total)
        log_z = float(mpmath.log(total))
    assert mean == pytest.approx(508.4527355572115, rel=1e-14)
    assert expected_distance(50, 3.0) == pytest.approx(mean, rel=1e-12)
    assert log_partition(50, 3.0) == pytest.approx(log_z, rel=1e-13)


def in_fifty_digits(n, alpha, distance):
    """The textbook formulas, with digits to spare instead of care."""
    with mpmath.workdps(50 + int(2 * alpha / n)):  # enough to see a log Z of exp(-2 alpha / n)
        theta = mpmath.mpf(alpha) / n
        q = mpmath.exp(-theta)
        if distance == "kendall":
            if alpha == 0:
                terms = [(mpmath.log(j), mpmath.mpf(j - 1) / 2) for j in range(1, n + 1)]
            else:
                terms = [
                    (
                        mpmath.log((1 - q**j) / (1 - q)),
                        1 / mpmath.expm1(theta) - j / mpmath.expm1(j * theta),
                    )
                    for j in range(1, n + 1)
                ]
        elif distance == "cayley":
            terms = [(mpmath.log1p(j * q), j * q / (1 + j * q)) for j in range(1, n)]
        else:
            derangements = [1, 0]
            for d in range(2, n + 1):
                derangements.append((d - 1) * (derangements[-1] + derangements[-2]))
            weights = [mpmath.binomial(n, d) * derangements[d] * q**d for d in range(n + 1)]
            total = mpmath.fsum(weights)
            terms = [(mpmath.log(total), mpmath.fsum(d * w for d, w in enumerate(weights)) / total)]
        log_z = mpmath.fsum(a for a, _ in terms)
        mean = mpmath.fsum(b for _, b in terms)
        return float(log_z), float(mean)


@closed
@pytest.mark.parametrize("n", [2, 30, 100, 500])
def test_closed_forms_to_many_digits(n, distance):
    for alpha in (0.0, 1e-12, 1e-3, 0.5, 0.99 * n, n, 3.0, 20.0, 700.0, 1e4):
        log_z, mean = in_fifty_digits(n, alpha, distance)
        assert log_partition(n, alpha, distance) == pytest.approx(log_z, rel=1e-12, abs=0), alpha
        assert expected_distance(n, alpha, distance) == pytest.approx(mean, rel=1e-12, abs=0), alpha


@pytest.mark.parametrize("distance", [*CLOSED, "footrule"])
def test_a_thousand_items(distance):
    alphas = np.array([0.0, 1e-12, 1.0, 30.0, 1e3, 1e4])
    log_z = log_partition(1000, alphas, distance)
    mean = expected_distance(1000, alphas, distance)
    assert np.all(np.isfinite(log_z))
    assert np.all(np.isfinite(mean))
    assert np.all(np.diff(log_z) <= 0)
    assert np.all(np.diff(mean) <= 0)
    assert log_z[0] == pytest.approx(lgamma(1001), rel=1e-13)
    assert mean[1] == pytest.approx(mean[0], rel=1e-11)


@names
@pytest.mark.parametrize("alpha", [0.01, 1.0, 8.0, 100.0])
def test_mean_is_the_derivative(distance, alpha):
    """log Z(a) - log Z(b) is the integral of E[d] / n from a to b, here by 12-point Gauss-Legendre."""
    n = {"spearman": 12, "ulam": 40}.get(distance, 1000)
    width = 0.2 * alpha
    nodes, weights = np.polynomial.legendre.leggauss(12)
    alphas = alpha + width * (nodes + 1) / 2
    integral = np.dot(weights, expected_distance(n, alphas, distance)) * width / 2 / n
    drop = log_partition(n, alpha, distance) - log_partition(n, alpha + width, distance)
    # log Z of some 6000 carries 1e-12; the quadrature is better than that.
    assert drop == pytest.approx(integral, rel=1e-8, abs=2e-11)


def test_known_means_at_alpha_zero():
    n = 20
    harmonic = sum(1 / k for k in range(1, n + 1))
    expected = {
        "footrule": (n * n - 1) / 3,
        "spearman": n * (n * n - 1) / 6,
        "kendall": n * (n - 1) / 4,
        "cayley": n - harmonic,
        "hamming": n - 1,
    }
    for distance, mean in expected.items():
        assert expected_distance(n, 0.0, distance) == pytest.approx(mean, rel=1e-12)


def test_ulam_counts_with_a_name():
    for n in (4, 10, 25):
        counts = np.exp(exact_partition.ulam_log_counts(n))
        assert counts[1] == pytest.approx((n - 1) ** 2, rel=1e-12)  # one item moved
        assert counts[-2] == pytest.approx(comb(2 * n, n) // (n + 1) - 1, rel=1e-12)  # Catalan: no rise of three
        assert counts[-1] == pytest.approx(1, rel=1e-12)  # the reversal


def test_ulam_at_its_limit_counts_every_permutation():
    log_counts = exact_partition.ulam_log_counts(exact_partition.ULAM_LIMIT)
    assert np.logaddexp.reduce(log_counts) == pytest.approx(lgamma(exact_partition.ULAM_LIMIT + 1), rel=1e-13)


@names
def test_shapes_follow_alpha(distance):
    n = 6
    grid = np.array([[0.0, 0.5, 1.0], [2.0, 3.0, 4.0]])
    for function in (log_partition, expected_distance):
        single = function(n, 3.0, distance)
        assert type(single) is float
        assert type(function(n, np.float64(3.0), distance)) is float
        assert type(function(n, np.array(3.0), distance)) is float
        many = function(n, grid, distance)
        assert many.shape == grid.shape
        assert many[1, 1] == single
        assert function(n, [], distance).shape == (0,)
        values, errors = function(n, grid, distance, return_error=True)
        np.testing.assert_array_equal(values, many)
        np.testing.assert_array_equal(errors, np.zeros((2, 3)))
        assert function(n, 3.0, distance, return_error=True) == (single, 0.0)


@names
@pytest.mark.parametrize("method", ["auto", "exact", "importance"])
def test_one_item_has_one_ranking(distance, method):
    assert log_partition(1, 5.0, distance, method=method, return_error=True) == (0.0, 0.0)
    assert expected_distance(1, 5.0, distance, method=method) == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1.0}, "alpha is -1: alpha must be finite and 0 or more"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"alpha": [1.0, float("inf")]}, r"alpha\[1\] is inf"),
        ({"alpha": "three"}, "alpha is 'three': give a number"),
        ({"n_items": 0}, "n_items must be a whole number, 1 or more"),
        ({"n_items": -3}, "n_items must be a whole number, 1 or more, but it is -3"),
        ({"n_items": 2.5}, "n_items must be a whole number, 1 or more, but it is 2.5"),
        ({"n_items": True}, "n_items must be a whole number, 1 or more, but it is True"),
        ({"distance": "euclid"}, "choose one of footrule, spearman"),
        ({"method": "magic"}, "choose one of auto, exact, importance, asymptotic"),
        ({"distance": "kendall", "rank_scale": "sqrt"}, "only the footrule has a rank scale"),
        ({"distance": "spearman", "n_items": 21, "method": "exact"}, "up to 20 items, and n_items is 21"),
        ({"distance": "ulam", "n_items": 81, "method": "exact"}, "up to 80 items, and n_items is 81"),
        ({"distance": "kendall", "method": "asymptotic"}, "for the footrule and spearman distances"),
    ],
)
@pytest.mark.parametrize("function", [log_partition, expected_distance])
def test_wrong_input_is_refused(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(**({"n_items": 5, "alpha": 1.0} | arguments))


def test_an_estimate_says_so():
    with pytest.warns(EstimateWarning, match=r"standard error 0\.\d+; it is exact up to 20 items"):
        quiet = log_partition(25, 2.0, "spearman")
    value, error = log_partition(25, 2.0, "spearman", return_error=True)
    assert value == quiet
    assert 0 < error < 0.1
    assert log_partition(25, 2.0, "spearman", method="importance") == value  # asked for: no warning
    assert log_partition(25, [1.0, 2.0], "spearman", method="importance")[1] == value
    assert log_partition(25, 2.0, "spearman", method="importance", seed=1) != value


@pytest.mark.parametrize(("n", "alpha"), [(30, 600.0), (50, 1e4)])
def test_a_mean_that_no_draw_shows_is_refused(n, alpha):
    with pytest.raises(ValueError, match="hardly a draw leaves the consensus"):
        expected_distance(n, alpha, "spearman", method="importance")
    value, error = log_partition(n, alpha, "spearman", return_error=True)
    assert abs(value) < 5 * error
