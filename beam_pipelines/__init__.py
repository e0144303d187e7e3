"""Raw tables in, training-ready TFRecord datasets out.

``import beam_pipelines as bp`` takes milliseconds. Each name below imports its module when it is
first used: a trainer that reads never loads Beam, a conversion never loads TensorFlow. Installed as
beam-pipelines-reader alone, it has the names that readers need.
"""

# No import stands before: ``__future__`` could be a file of the current folder, too.
import sys

# ``python -m beam_pipelines`` looks there first, and the folder may be that of the data.
if (
    sys.argv[:1] == ["-m"]
    and "beam_pipelines" in sys.orig_argv
    and not getattr(sys.flags, "safe_path", sys.flags.isolated)
):
    del sys.path[0]

from typing import TYPE_CHECKING, Any

from beam_pipelines.core.process import full_package
from beam_pipelines.core.version import __version__ as __version__

if TYPE_CHECKING:
    from beam_pipelines.core.errors import DataError as DataError
    from beam_pipelines.core.errors import RecipeError as RecipeError
    from beam_pipelines.dataset.loader import load as load
    from beam_pipelines.encodings import register_encoding as register_encoding
    from beam_pipelines.pipeline.api import Description as Description
    from beam_pipelines.pipeline.api import convert as convert
    from beam_pipelines.pipeline.api import describe as describe
    from beam_pipelines.pipeline.api import inspect as inspect
    from beam_pipelines.pipeline.api import transform as transform
    from beam_pipelines.pipeline.api import validate as validate
    from beam_pipelines.pipeline.api import verify as verify
    from beam_pipelines.pipeline.planning.plan import Plan as Plan
    from beam_pipelines.pipeline.planning.plan_recipe import plan as plan
    from beam_pipelines.pipeline.planning.policy import PolicyOptions as PolicyOptions
    from beam_pipelines.pipeline.serving_graph import make_graph as make_graph
    from beam_pipelines.reader.columns import Keyed as Keyed
    from beam_pipelines.reader.columns import Ragged as Ragged
    from beam_pipelines.reader.dataset import Dataset as Dataset
    from beam_pipelines.reader.dataset import open as open  # noqa: A004 - as ``bp.open``
    from beam_pipelines.reader.encodings.encoder import Encoder as Encoder
    from beam_pipelines.reader.encodings.feature_info import FeatureInfo as FeatureInfo
    from beam_pipelines.reader.images import Image as Image
    from beam_pipelines.reader.lookup import Lookup as Lookup
    from beam_pipelines.reader.mix import mix as mix
    from beam_pipelines.reader.reader import Reader as Reader
    from beam_pipelines.recipe.model import Recipe as Recipe
    from beam_pipelines.sources import register_format as register_format

# Public name -> (module, name in it).
_PLACE_OF_NAME = {
    "DataError": ("core.errors", "DataError"),
    "Dataset": ("reader.dataset", "Dataset"),
    "Description": ("pipeline.api", "Description"),
    "Encoder": ("reader.encodings.encoder", "Encoder"),
    "FeatureInfo": ("reader.encodings.feature_info", "FeatureInfo"),
    "Image": ("reader.images", "Image"),
    "Keyed": ("reader.columns", "Keyed"),
    "Lookup": ("reader.lookup", "Lookup"),
    "Plan": ("pipeline.planning.plan", "Plan"),
    "PolicyOptions": ("pipeline.planning.policy", "PolicyOptions"),
    "Recipe": ("recipe.model", "Recipe"),
    "Ragged": ("reader.columns", "Ragged"),
    "Reader": ("reader.reader", "Reader"),
    "RecipeError": ("core.errors", "RecipeError"),
    "convert": ("pipeline.api", "convert"),
    "describe": ("pipeline.api", "describe"),
    "inspect": ("pipeline.api", "inspect"),
    "load": ("dataset.loader", "load"),
    "make_graph": ("pipeline.serving_graph", "make_graph"),
    "mix": ("reader.mix", "mix"),
    "open": ("reader.dataset", "open"),
    "plan": ("pipeline.planning.plan_recipe", "plan"),
    "register_encoding": ("encodings", "register_encoding"),
    "register_format": ("sources", "register_format"),
    "transform": ("pipeline.api", "transform"),
    "validate": ("pipeline.api", "validate"),
    "verify": ("pipeline.api", "verify"),
}
__all__ = ["__version__", *_PLACE_OF_NAME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _PLACE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _PLACE_OF_NAME[name]
    return getattr(full_package.import_module(module, f"bp.{name}"), own_name)


def __dir__() -> list[str]:
    return __all__
