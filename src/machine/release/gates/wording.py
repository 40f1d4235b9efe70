"""Wording: numbers as the gates write them: shares in per cent, p-values without exponents, ids by name."""

from collections.abc import Iterable

from machine.evals.case import named


def percent(share: float) -> str:
    """A share: `58.3 %`, `12 %`."""
    return f"{_tenths(100 * share):g} %"


def signed(share: float) -> str:
    """A difference of shares: `+58.3 %`, `-4 %`, `0 %`."""
    found = _tenths(100 * share)
    return f"{found:+g} %" if found else "0 %"


def times(ratio: float) -> str:
    """A ratio, to two decimals: `1.5 times`."""
    return f"{round(ratio, 2):g} times"


def probability(p: float) -> str:
    """A p-value: `p = 0.012`, `p = 0.00006`, `p < 0.00001`."""
    if p < 1e-5:
        return "p < 0.00001"
    digits = 3 if p >= 0.001 else 2
    short = float(f"{p:.{digits}g}")
    return f"p = {short:.8f}".rstrip("0").rstrip(".")


def names(ids: Iterable[str]) -> str:
    """The first ids, each once, and how many more there are."""
    return named(list(dict.fromkeys(ids)))


def _tenths(value: float) -> float:
    return round(value, 1) or 0.0  # never -0
