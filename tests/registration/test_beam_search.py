"""A beam search grows until nothing can, and keeps every beam on the way."""

from eda.registration.beam_search import beam_search


def test_beams_grow_until_none_can():
    """The two largest sums of distinct weights, one weight more at a time."""
    weights = (5, 3, 2)

    def expand(beam: list[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
        grown = {tuple(sorted((*chosen, w))) for chosen in beam for w in weights if w not in chosen}
        return sorted(grown, key=sum, reverse=True)[:2] or None

    assert beam_search([(5,), (3,)], expand) == [[(5,), (3,)], [(3, 5), (2, 5)], [(2, 3, 5)]]


def test_seeds_that_cannot_grow_are_the_only_beam():
    assert beam_search("seeds", lambda beam: None) == ["seeds"]
