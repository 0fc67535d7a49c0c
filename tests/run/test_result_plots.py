"""Pictures of a result: what is in them, read back from matplotlib."""

import numpy as np
import pytest
from matplotlib import pyplot
from scipy import stats
from support.results import result_of

from vrsgmcmc.run.plots.draws import autocorrelation
from vrsgmcmc.run.plots.simulations import bin_edges

RNG = np.random.default_rng(8)
DRAWS = {"mu": RNG.normal(3, 1, (4, 200)), "w": RNG.normal(size=(4, 200, 2))}
RESULT = result_of(DRAWS)


@pytest.fixture(autouse=True)
def closed():
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def titles(axes):
    return [each.get_title(loc="left") for each in axes]


def test_traces_are_the_draws():
    axes = RESULT.plot_trace()
    assert titles(axes) == ["mu", "w[0]", "w[1]"]
    lines = axes[2].get_lines()
    assert [line.get_label() for line in lines] == [f"chain {c}" for c in range(4)]
    for chain, line in enumerate(lines):
        np.testing.assert_array_equal(line.get_ydata(), DRAWS["w"][chain, :, 1])
        np.testing.assert_array_equal(line.get_xdata(), RESULT.draw_steps)


def test_a_forest_has_medians_and_intervals():
    (axes,) = RESULT.plot_forest()
    medians = axes.get_lines()[-1].get_xdata()
    flat = np.concatenate([DRAWS["mu"][..., None], DRAWS["w"]], axis=-1).reshape(-1, 3)
    np.testing.assert_allclose(medians, np.median(flat, axis=0))
    wide = np.array([path.vertices[:, 0] for path in axes.collections[0].get_paths()])
    np.testing.assert_allclose(wide, np.quantile(flat, [0.025, 0.975], axis=0).T)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["mu", "w[0]", "w[1]"]


def test_ranks_of_one_chain_that_is_elsewhere_are_not_level():
    draws = DRAWS["mu"].copy()
    draws[3] += 10
    (axes,) = result_of({"mu": draws}).plot_rank("mu")
    heights = [patch.get_data().values for patch in axes.patches]
    assert heights[3][0] == 0
    assert heights[3][-1] == 4
    np.testing.assert_allclose(np.mean(heights, axis=0), 1, atol=0.03)  # ties with an edge


def test_autocorrelation_is_that_of_an_autoregression():
    noise = RNG.normal(size=(2, 20_000))
    x = np.zeros_like(noise)
    for t in range(1, x.shape[1]):
        x[:, t] = 0.8 * x[:, t - 1] + noise[:, t]
    values = autocorrelation(x[..., None], 5)
    np.testing.assert_allclose(values[..., 0], np.tile(0.8 ** np.arange(6), (2, 1)), atol=0.03)
    c = x[0] - x[0].mean()
    assert values[0, 3, 0] == pytest.approx(c[3:] @ c[:-3] / (c @ c))
    assert np.isnan(autocorrelation(np.ones((1, 9, 1)), 3)).all()
    (axes,) = result_of({"x": x}).plot_autocorr(lags=5)
    np.testing.assert_allclose(axes.get_lines()[1].get_ydata(), values[0, :, 0])


def test_a_check_has_the_fractions_of_the_data():
    observed = RNG.poisson(2.0, 300)
    simulated = RNG.poisson(2.0, (100, 300))
    (axes,) = RESULT.plot_ppc(simulated, observed)
    *_, line = axes.patches
    values, edges = line.get_data().values, line.get_data().edges
    np.testing.assert_allclose(values[:-1] * 300, np.bincount(observed, minlength=len(values))[:-1])
    assert edges[0] == -0.5
    expected = stats.poisson(2.0).pmf(np.arange(4))
    np.testing.assert_allclose(axes.patches[1].get_data().values[:4], expected, atol=0.02)


def test_a_check_by_a_function_simulates_at_the_draws():
    import jax

    def simulate(params, x, key):
        return params["mu"] + 0.0 * x + 1e-3 * jax.random.normal(key, x.shape)

    (axes,) = RESULT.plot_ppc(simulate, np.full(50, 3.0), x=np.ones(50))
    assert axes.get_ylabel() == "density of the data"


def test_bins_hold_every_number():
    for values in (np.array([1.0, 1.0]), RNG.standard_cauchy(1000), np.array([0.0, 1e6])):
        edges = bin_edges(values[None], values)
        assert np.all(np.diff(edges) > 0)
        assert np.histogram(values, edges)[0].sum() == values.size


@pytest.mark.parametrize(
    "plot", ["plot_trace", "plot_rank", "plot_autocorr", "plot_forest", "plot_ppc"]
)
def test_every_picture_can_be_drawn(plot):
    dollars = result_of({"a $ b^{": DRAWS["mu"]})
    arguments = (RNG.normal(size=(9, 30)), RNG.normal(size=30)) if plot == "plot_ppc" else ()
    axes = getattr(dollars, plot)(*arguments)
    axes[0].figure.canvas.draw()


@pytest.mark.parametrize("plot", ["plot_trace", "plot_forest"])
def test_of_many_parameters_and_chains_the_first_are_shown_and_it_says_so(plot):
    many = result_of(RNG.normal(size=(8, 5, 150)))
    axes = getattr(many, plot)()
    figure = axes[0].figure
    note = figure.legends[0].get_title().get_text() if figure.legends else figure.get_suptitle()
    assert "the first 20 of 150 parameters, names= chooses others" in note
    assert ("the first 6 of 8 chains" in note) == (plot != "plot_forest")
    assert len(axes) == (1 if plot == "plot_forest" else 20)
    assert "x[149]" in str(titles(getattr(many, plot)(names=["x[149]"]))) or plot == "plot_forest"
    with pytest.raises(ValueError, match="chooses 150 parameters; a figure shows at most 100"):
        getattr(many, plot)(names="x")


@pytest.mark.parametrize(
    ("simulated", "observed", "words"),
    [
        (np.zeros((3, 4)), np.zeros(5), r"simulated has to be \[draw, 5\]; it is \[3, 4\]"),
        (np.zeros((3, 5)), [1, 2, np.nan, 3, 4], "observed must be finite"),
        (np.zeros((0, 2)), np.zeros(2), "it is"),
        (np.zeros((2, 0)), np.zeros(0), "it is"),
    ],
)
def test_a_check_of_wrong_shapes_is_refused(simulated, observed, words):
    with pytest.raises(ValueError, match=words):
        RESULT.plot_ppc(simulated, observed)
