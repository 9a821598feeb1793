"""From sampled poses to ranked, refined and judged assemblies, by the evidence of the pieces themselves."""

from eda.assembly.assemble import AssembleConfig, assemble
from eda.assembly.assemblies import Assemblies
from eda.assembly.confidence import Calibration, calibrate, expected_calibration_error
from eda.assembly.contact import Fracture, Scan
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import Fragment
from eda.assembly.judge import Judgement, judge
from eda.assembly.pool import Joint, PoolConfig
from eda.assembly.propose import ProposeConfig, propose
from eda.assembly.rank import Candidate, RankConfig, rank
from eda.assembly.refine import RefineConfig, refine
from eda.assembly.result import Alternative, Assembly

__all__ = [
    "Alternative",
    "AssembleConfig",
    "Assemblies",
    "Assembly",
    "Calibration",
    "Candidate",
    "Evidence",
    "Fracture",
    "Fragment",
    "Joint",
    "Judgement",
    "PoolConfig",
    "ProposeConfig",
    "RankConfig",
    "RefineConfig",
    "Scan",
    "assemble",
    "calibrate",
    "expected_calibration_error",
    "judge",
    "propose",
    "rank",
    "refine",
]
