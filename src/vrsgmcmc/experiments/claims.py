"""The paper's claims, answered from the curves of the methods.

`curves.py` defines how two curves are compared. A claim is read in two ways: of the test loss of the
average prediction, which gives the answer, and of the losses of the samples, which the paper plots.
"""

from collections.abc import Callable, Sequence

import numpy as np

from vrsgmcmc.reports import Claim

from . import curves
from .curves import Comparison, MethodResult, Results, describe_comparisons, format_score, grade
from .methods import ANCHORED, EQUAL, PAPER, SGLD, SHUFFLED, SVRG

PASSES: dict[str, curves.Axis] = {
    "data passes": MethodResult.passes,
    "the paper's count": MethodResult.paper_passes,
}
COINCIDE = 0.02  # of the loss
OF_SAMPLES = "Of the sample at each point, the mean over seeds: "


def in_both_readings(answer: Callable[[Results], list[Claim]], results: Results) -> list[Claim]:
    """The claims about the average prediction, each beside the same one about the samples."""
    claims = answer(results)
    if any("test_sample" not in each.scores for each in results.values()):
        return claims
    of_samples = {
        name: each._replace(scores={**each.scores, "test": each.scores["test_sample"]})
        for name, each in results.items()
    }
    return [name_readings(*pair) for pair in zip(claims, answer(of_samples), strict=True)]


def name_readings(average: Claim, samples: Claim) -> Claim:
    """One claim with the evidence of both; the answer is that of the average prediction."""
    if average.evidence == samples.evidence:  # about the samples anyway
        return average
    return average._replace(
        evidence=f"Of the average prediction: {average.evidence}\n\n"
        f"{OF_SAMPLES}{samples.answer}. {samples.evidence}"
    )


def method_claims(results: Results) -> list[Claim]:
    """The claims that these methods, and their scores, can answer."""
    return in_both_readings(answer_method_claims, results)


def answer_method_claims(results: Results) -> list[Claim]:
    if SGLD not in results or PAPER not in results:
        return []
    svrg = [claim_svrg(results)] if SVRG in results else []
    smoother = [claim_smoother(results)] if "test_sample" in results[PAPER].scores else []
    return [claim_faster(results), *svrg, *smoother, claim_equal_time(results)]


def compare_by_passes(
    one: MethodResult, other: MethodResult, measure: str = "nll"
) -> dict[str, Comparison]:
    """The comparison of two methods, by each count of data passes."""
    return {
        label: curves.compare(one.curve(axis, measure), other.curve(axis, measure))
        for label, axis in PASSES.items()
    }


def claim_faster(results: Results) -> Claim:
    ours, theirs = results[PAPER], results[SGLD]
    comparisons = {measure: compare_by_passes(ours, theirs, measure) for measure in ours.measures}
    losses = comparisons["nll"]
    ends = [each.lower for by_axis in comparisons.values() for each in by_axis.values()]
    names = [name for name in (SGLD, EQUAL, PAPER, SHUFFLED) if name in results]
    final = "; ".join(f"{name}: {final_scores(results[name])}" for name in names)
    return Claim(
        "vrSG-MCMC converges faster per data pass than SGLD, with lower final test error and loss.",
        grade(*ends, *(each.mostly_lower for each in losses.values())),
        f"vrSG-MCMC has the lower test NLL {describe_comparisons(losses)}. At the end: {final}.",
    )


def final_scores(result: MethodResult) -> str:
    return ", ".join(f"test {m} {format_score(m, result.final(m)[0])}" for m in result.measures)


def claim_svrg(results: Results) -> Claim:
    comparisons = compare_by_passes(results[PAPER], results[SVRG])
    ends = [each.lower for each in compare_by_passes(results[SVRG], results[PAPER]).values()]
    return Claim(
        "SVRG-LD can end lower but converges more slowly per pass than vrSG-MCMC.",
        grade(*ends, *(each.mostly_lower for each in comparisons.values())),
        f"vrSG-MCMC has the lower test NLL {describe_comparisons(comparisons)}.",
    )


def claim_smoother(results: Results) -> Claim:
    rough = {name: roughness(results[name]) for name in (SGLD, EQUAL, PAPER) if name in results}
    (ours, error), (theirs, other) = rough[PAPER], rough[SGLD]
    answer = grade(ours < theirs, ours + 2 * np.hypot(error, other) < theirs)
    listed = ", ".join(
        f"{name}: {curves.if_finite(value, f'{value:.4f} ± {se:.4f}')}"
        for name, (value, se) in rough.items()
    )
    return Claim(
        "Curves are smoother with variance reduction.",
        answer if np.isfinite(ours + theirs) else "not tested",
        "Mean size of the second difference of the last sample's test NLL, and its standard error, "
        f"over the last half of the points: {listed}.",
    )


def claim_equal_time(results: Results) -> Claim:
    ours, theirs = (results[name].curve(MethodResult.seconds) for name in (PAPER, SGLD))
    comparison = curves.compare(ours, theirs)
    return Claim(
        "At equal wall-clock time vrSG-MCMC improves on SGLD.",
        grade(comparison.mostly_lower, comparison.lower),
        f"vrSG-MCMC has the lower test NLL {describe_comparisons({'seconds': comparison})}.",
    )


def anchor_claims(results: Results) -> list[Claim]:
    """The two claims about n1: better than SGLD for each; the same from n1 = 200 on."""
    return in_both_readings(answer_anchor_claims, results)


def answer_anchor_claims(results: Results) -> list[Claim]:
    sizes = {n: each for n, each in results.items() if n.startswith(ANCHORED)}
    if SGLD not in results or len(sizes) < 2:
        return []
    comparisons = [compare_by_passes(each, results[SGLD]) for each in sizes.values()]
    wins = {label: [each[label].clearly_lower for each in comparisons] for label in PASSES}
    ends = {label: [each[label].lower for each in comparisons] for label in PASSES}
    plain = {n: each for n, each in results.items() if n.startswith("SGLD")}
    losses = "; ".join(f"{n}: {each.final('nll')[0]:.4f}" for n, each in (plain | sizes).items())
    beats = Claim(
        "vrSG-MCMC beats SGLD for every n1.",
        grade(*(won for each in wins.values() for won in each)),
        f"It is lower on most of the curve, and where it ends, for {count_true(wins)}; where it ends, "
        f"for {count_true(ends)}. Test NLL at the end: {losses}.",
    )
    large = [each for n, each in sizes.items() if int(n.removeprefix(ANCHORED)) >= 200]
    if len(large) < 2:
        return [beats]
    spreads = {label: largest_spread(large, axis) for label, axis in PASSES.items()}
    return [
        beats,
        Claim(
            "From n1 = 200 on the curves nearly coincide.",
            grade(*(None if np.isnan(s) else s < COINCIDE for s in spreads.values())),
            "Their test NLLs differ by up to "
            + " and ".join(
                f"{'an unknown part' if np.isnan(spread) else f'{spread:.1%}'} by {label}"
                for label, spread in spreads.items()
            )
            + ", at the worst place in the second half of the (logarithmic) axis.",
        ),
    ]


def count_true(answers: dict[str, list[bool | None]]) -> str:
    return " and ".join(
        f"{each.count(True)} of {len(each)} n1 by {a}" for a, each in answers.items()
    )


def largest_spread(results: Sequence[MethodResult], axis: curves.Axis) -> float:
    """The largest relative difference between curves, over the second half of their common range.

    NaN if they do not overlap or became non-finite.
    """
    lines = [each.curve(axis) for each in results]
    first, last = curves.common_range(lines)
    if not first < last:
        return np.nan
    costs = np.geomspace(np.sqrt(first * last), last, curves.PLACES)
    losses = np.stack([each.at(costs).mean(1) for each in lines])
    return float(np.max(np.ptp(losses, axis=0) / losses.min(0)))


def roughness(result: MethodResult) -> tuple[float, float]:
    """How much the last sample's loss jumps over the last half of the points, and its error.

    The loss of the average prediction does not jump: it bends, more where it falls more. The error is
    over seeds, or over the jumps of a single seed.
    """
    values = result.scores["test_sample"]["nll"]
    values = values[len(values) // 2 :]
    if len(values) < 4:
        return np.nan, np.nan
    jumps = np.abs(np.diff(values, 2, axis=0))
    repeated = jumps.mean(0) if jumps.shape[1] > 1 else jumps[:, 0]
    return float(jumps.mean()), curves.standard_error(repeated)
