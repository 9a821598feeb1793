"""The verdict on a result, in words: whether it is right as far as is known, and what to try."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Judgement = Literal["likely right", "uncertain", "probably wrong", "nothing fits"]

# The probabilities from which on an assembly is likely right, and below which it is probably wrong.
LIKELY, UNLIKELY = 0.8, 0.4
UNLIKE = "unlike what this model knows"
MANY_SAMPLES = 64


@dataclass(frozen=True)
class Observed:
    """What is known of a result."""

    probability: float  # of the best alternative
    empty: bool  # nothing was placed that was not pinned
    unplaced: int  # how many pieces have no place
    weakest: str | None  # the piece that is most likely wrong
    trusted: bool  # whether the probabilities were calibrated for this model
    known: bool  # whether the pieces are like those that it was calibrated on
    stopped: bool  # by the time limit
    samples: int  # that were drawn


@dataclass(frozen=True)
class Verdict:
    """A judgement, and what it does not say."""

    judgement: Judgement
    unlike: bool  # the pieces are unlike what this model knows, so its probabilities mean less
    advice: tuple[str, ...]  # what to try, the best first

    @staticmethod
    def of(observed: Observed) -> Verdict:
        """The verdict on a result. What is not calibrated, or unlike what is known, is never likely right."""
        judgement = _judgement(observed)
        return Verdict(judgement, not observed.known, tuple(_advice(observed, judgement)))

    def __str__(self) -> str:
        unlike = f", and {UNLIKE}" if self.unlike else ""
        advice = f" Try: {'; '.join(self.advice)}." if self.advice else ""
        return f"Verdict: {self.judgement}{unlike}.{advice}"

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {**asdict(self), "advice": list(self.advice)}


def _judgement(observed: Observed) -> Judgement:
    if observed.empty:
        return "nothing fits"
    if observed.probability < UNLIKELY:
        return "probably wrong"
    sure = observed.probability >= LIKELY and observed.trusted and observed.known
    return "likely right" if sure else "uncertain"


def _advice(observed: Observed, judgement: Judgement) -> list[str]:
    if judgement == "likely right":
        return ["look at the pieces without a place one by one"] if observed.unplaced else []
    every = {
        "name the model that was made for such pieces (--model)": not observed.known,
        "check that all files are in one unit and that every piece is whole": not observed.known or observed.empty,
        "give it more time": observed.stopped,
        f"draw more samples (--samples {MANY_SAMPLES})": observed.samples < MANY_SAMPLES,
        f"leave out {observed.weakest}, or pin a piece that is right": observed.weakest is not None,
        "leave out pieces that may be of another object": observed.unplaced > 0 and not observed.empty,
        "compare the alternatives in the report": not observed.empty,
    }
    return [text for text, applies in every.items() if applies]
