"""Figures: labels, marks, and files that do not depend on time."""

import numpy as np
import pytest

from vrsgmcmc.advice.audit import Audit, Block
from vrsgmcmc.reports import audit_figure, figures
from vrsgmcmc.reports.pictures import intervals


def test_labels_keep_their_order_and_their_distance():
    ends = figures.isotonic_regression([1.0, 3.0, 2.0, 2.0, 5.0, 4.0]).x
    np.testing.assert_allclose(ends, [1, 7 / 3, 7 / 3, 7 / 3, 4.5, 4.5])
    x = np.array([1.0, 10.0])
    lines = {f"line {k}": (x, np.array([0.0, 1 + 1e-6 * k])) for k in range(5)}
    figure = figures.curves([figures.Panel("together", lines)], x_label="x")
    heights = [text.xyann[1] for text in figure.axes[0].texts]
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names == [f"line {k}" for k in range(5)]
    assert np.diff(heights).min() > 0.07
    assert min(heights) >= 0
    assert max(heights) <= 1


def test_the_same_figure_is_the_same_file(tmp_path):
    lines = {"a": (np.array([1.0, 2.0]), np.array([1.0, 3.0]))}
    for name in ("first", "second"):
        figure = figures.curves([figures.Panel("title", lines, level=("b", 2.0))], x_label="x")
        assert figures.save(figure, tmp_path / name) == [f"{name}.png", f"{name}.svg"]
    for kind in ("png", "svg"):
        first, second = (tmp_path / f"{name}.{kind}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_what_is_not_a_number_is_left_out(tmp_path):
    x = np.array([1.0, 10.0])
    lines = {"lost": (x, np.array([1.0, np.nan])), "kept": (x, np.array([1.0, 2.0]))}
    figure = figures.curves([figures.Panel("one was lost", lines)], x_label="x")
    assert [text.get_text() for text in figure.axes[0].texts] == ["lost", "kept"]
    figures.save(figure, tmp_path / "curves")
    block = Block("w", 3, np.nan, np.inf, 0.5, np.nan)
    unknown = Audit(
        "practical", False, "no gain", np.nan, np.inf, 0.1, 0.2, 30.0, 30, (block,), (), 0, 0
    )
    audit_figure(unknown, tmp_path / "audit.png")
    assert (tmp_path / "audit.png").stat().st_size > 0


def test_names_with_control_characters_are_drawn(tmp_path):
    name = "w\x1b[2J\x00\n$"
    block = Block(name, 3, 0.1, 0.2, 0.5, 0.1)
    verdict = f"no gain: {name} is wide. " * 10
    audit = Audit(name, False, verdict, 0.1, 0.2, 0.1, 0.2, 30.0, 30, (block,), (), 0, 0)
    for kind in ("png", "svg", "pdf"):
        figure = audit_figure(audit, tmp_path / f"audit.{kind}")
        assert (tmp_path / f"audit.{kind}").stat().st_size > 0
    title = figure.get_suptitle()
    assert title.replace("\n", "").isprintable()
    assert max(map(len, title.splitlines())) <= 100


def test_a_line_that_stops_is_named_where_it_stops():
    x = np.array([1.0, 3.0, 10.0])
    lines = {"whole": (x, np.array([1.0, 1.0, 1.0])), "broken": (x, np.array([1.0, 2.0, np.nan]))}
    figure = figures.curves([figures.Panel("one stops", lines)], x_label="x")
    whole, broken = figure.axes[0].texts
    assert (whole.get_text(), broken.get_text()) == ("whole", "broken")
    assert broken.xy == (3.0, 2.0)


@pytest.mark.parametrize("highest", [1.08, 1.3, 1.6, 2.5, 4, 6, 8, 15, 100, 500, 1e4, 1e8])
def test_every_logarithmic_axis_has_a_handful_of_marks(highest):
    for lowest in (0.03, 0.97, 1.004, 1.9):
        line = np.array([1.0, 10.0]), np.array([lowest, lowest * highest])
        figure = figures.curves([figures.Panel("", {"a": line}, log_y=True)], x_label="x")
        figure.draw_without_rendering()
        axis = figure.axes[0].yaxis
        low, high = axis.get_view_interval()
        marks = [mark for mark in axis.get_majorticklocs() if low <= mark <= high]
        assert 3 <= len(marks) <= 12


def test_runs_are_compared_in_the_units_of_the_first():
    mean, sd = np.array([[1.0, 10.0], [3.0, 10.0]]), np.array([[2.0, 5.0], [1.0, 10.0]])
    figure = intervals(["a", "b"], ["first", "second"], mean, sd)
    (axes,) = figure.axes
    points = [bars.lines[0].get_xdata() for bars in axes.containers]
    np.testing.assert_allclose(points, [[0, 0], [1, 0]])
    ends = [
        [segment[:, 0] for segment in bars.lines[2][0].get_segments()] for bars in axes.containers
    ]
    np.testing.assert_allclose(ends, [[[-1, 1], [-1, 1]], [[0.5, 1.5], [-2, 2]]])
