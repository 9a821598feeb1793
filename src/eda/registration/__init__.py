"""Rigid registration: relative poses, their hypotheses, refinement and duplicates; below the network and the assembler.

Two kinds of arrays live here, for a reason. What searches works on NumPy arrays (..., 4, 4) of float64 on the CPU:
`rigid`, `icp`, `patches`, `agreement`. What a network asks once per puzzle is batched over all pairs of pieces and
stays in torch, on the network's device and in its precision: `procrustes`, `contact`, `hypotheses`, `arrangements`,
`rigid_groups`. What both do is written once: the linearisation of ICP, the rule for duplicates, the beam search.
"""
