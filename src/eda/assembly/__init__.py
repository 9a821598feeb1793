"""From clouds to ranked assemblies: proposals from the network and from geometry, refined, scored and put together."""

from eda.assembly.assemble import AssembleConfig, PreparedPieces, assemble, prepare
from eda.assembly.contact.evidence import Evidence
from eda.assembly.contact.fracture_contact import FractureContact
from eda.assembly.contact.fragment import Fragment
from eda.assembly.contact.scan_contact import ScanContact
from eda.assembly.contact.score import AssemblyScores, score_assemblies
from eda.assembly.inputs.clouds import Clouds
from eda.assembly.inputs.downsample import ModelInput
from eda.assembly.inputs.model_choice import ModelChoice, choose_model
from eda.assembly.inputs.normals import outward_normals
from eda.assembly.inputs.pins import read_pin
from eda.assembly.proposals import DockingConfig, Problem, Proposals, Proposer
from eda.assembly.regimes import regime_of
from eda.assembly.result import Alternative, Assembly, Comparison, Group
from eda.assembly.search.assemblies import Assemblies
from eda.assembly.search.joints import Joint, JointConfig
from eda.assembly.search.rank import rank
from eda.assembly.search.rank_config import RankConfig
from eda.assembly.search.refine import RefineConfig, refine

__all__ = [
    "Alternative",
    "AssembleConfig",
    "Assemblies",
    "Assembly",
    "AssemblyScores",
    "Clouds",
    "Comparison",
    "DockingConfig",
    "Evidence",
    "FractureContact",
    "Fragment",
    "Group",
    "Joint",
    "JointConfig",
    "ModelChoice",
    "ModelInput",
    "PreparedPieces",
    "Problem",
    "Proposals",
    "Proposer",
    "RankConfig",
    "RefineConfig",
    "ScanContact",
    "assemble",
    "choose_model",
    "outward_normals",
    "prepare",
    "rank",
    "read_pin",
    "refine",
    "regime_of",
    "score_assemblies",
]
