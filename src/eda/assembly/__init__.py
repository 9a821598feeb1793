"""From sampled poses to ranked, refined and judged assemblies, by the evidence of the pieces themselves."""

from eda.assembly.assemble import AssembleConfig, Prepared, assemble, prepare
from eda.assembly.assemblies import Assemblies
from eda.assembly.choose import Choice, choose_model
from eda.assembly.clouds import Clouds
from eda.assembly.confidence import Calibration, calibrate
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import Fragment
from eda.assembly.judge import Judgement, judge
from eda.assembly.pins import read_pin
from eda.assembly.pool import Joint, PoolConfig
from eda.assembly.propose import ProposeConfig, propose
from eda.assembly.rank import Candidate, RankConfig, rank
from eda.assembly.refine import RefineConfig, refine
from eda.assembly.result import Alternative, Assembly, Comparison
from eda.assembly.scans import Scan
from eda.assembly.sherds import Fracture
from eda.assembly.surface import outward_normals
from eda.assembly.thin import Thinned

__all__ = [
    "Alternative",
    "AssembleConfig",
    "Assemblies",
    "Assembly",
    "Calibration",
    "Candidate",
    "Choice",
    "Clouds",
    "Comparison",
    "Evidence",
    "Fracture",
    "Fragment",
    "Joint",
    "Judgement",
    "PoolConfig",
    "Prepared",
    "ProposeConfig",
    "RankConfig",
    "RefineConfig",
    "Scan",
    "Thinned",
    "assemble",
    "calibrate",
    "choose_model",
    "judge",
    "outward_normals",
    "prepare",
    "propose",
    "rank",
    "read_pin",
    "refine",
]
