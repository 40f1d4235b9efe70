"""Arms for the tests of the gates: what each of a few models did with the same cases, by hand."""

from collections.abc import Sequence

from machine.evals.score import PASS
from machine.release.gates.arms import Arm, Measured


def arm(
    name: Arm,
    scores: Sequence[float],
    texts: Sequence[str] | None = None,
    *,
    tokens: Sequence[float] | None = None,
    cut: dict[str, int] | None = None,
    suite: str = "target",
    why: dict[str, str] | None = None,
) -> Measured:
    """An arm that scored so on the cases c0, c1 ...; one answer to each."""
    ids = [f"c{i}" for i in range(len(scores))]
    said = texts or [f"answer {score:g}" for score in scores]
    return Measured(
        suite=suite,
        arm=name,
        scores=dict(zip(ids, scores, strict=True)),
        passed={id: score >= PASS for id, score in zip(ids, scores, strict=True)},
        tokens=dict(zip(ids, tokens or [10.0] * len(ids), strict=True)),
        texts={id: (text,) for id, text in zip(ids, said, strict=True)},
        cut=cut or {},
        samples=f"samples/{suite}-{name}.json",
        why=why or {},
    )


def pair(both: int, won: int, lost: int, neither: int) -> tuple[Measured, Measured]:
    """Base and candidate: so many cases passed by both, by the candidate alone, by the base alone, by neither."""
    base = [1.0] * both + [0.0] * won + [1.0] * lost + [0.0] * neither
    candidate = [1.0] * both + [1.0] * won + [0.0] * lost + [0.0] * neither
    return arm("base", base), arm("candidate", candidate)
