"""From clouds to ranked assemblies: proposals from the network and from geometry, refined, judged and put together."""

from eda.assembly.assemble import AssembleConfig, PreparedPieces, assemble, prepare
from eda.assembly.assemblies import Assemblies
from eda.assembly.evidence import Evidence
from eda.assembly.fragment import Fragment
from eda.assembly.inputs.clouds import Clouds
from eda.assembly.inputs.downsample import ModelInput
from eda.assembly.inputs.model_choice import ModelChoice, choose_model
from eda.assembly.inputs.normals import outward_normals
from eda.assembly.inputs.pins import read_pin
from eda.assembly.judge import Judgement, judge
from eda.assembly.pool import Joint, PoolConfig
from eda.assembly.proposals import DockingConfig, Problem, Proposals, Proposer
from eda.assembly.refine import RefineConfig, refine
from eda.assembly.regimes import regime_of
from eda.assembly.result import Alternative, Assembly, Comparison
from eda.assembly.scans import Scan
from eda.assembly.search.config import RankConfig
from eda.assembly.search.rank import rank
from eda.assembly.sherds import Fracture

__all__ = [
    "Alternative",
    "AssembleConfig",
    "Assemblies",
    "Assembly",
    "Clouds",
    "Comparison",
    "DockingConfig",
    "Evidence",
    "Fracture",
    "Fragment",
    "Joint",
    "Judgement",
    "ModelChoice",
    "ModelInput",
    "PoolConfig",
    "PreparedPieces",
    "Problem",
    "Proposals",
    "Proposer",
    "RankConfig",
    "RefineConfig",
    "Scan",
    "assemble",
    "choose_model",
    "judge",
    "outward_normals",
    "prepare",
    "rank",
    "read_pin",
    "refine",
    "regime_of",
]
