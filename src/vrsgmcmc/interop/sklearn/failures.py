"""Checks of scikit-learn that a sampler does not pass, and why."""

_ERROR = (
    "A fit is a sample: on rows with weights and on repeated rows the chains differ, so predictions "
    "agree within their Monte Carlo error, and not to 1e-7."
)
_SAMPLE = {"check_sample_weight_equivalence_on_dense_data": _ERROR}

# The name of an estimator's class -> the checks, for `check_estimator(expected_failed_checks=...)`.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {
    "BayesianLinearRegression": _SAMPLE,
    "BayesianLogisticRegression": _SAMPLE,
    "BayesianMLPClassifier": _SAMPLE,
    "BayesianMLPRegressor": _SAMPLE,
    "BayesianPoissonRegression": _SAMPLE,
}
