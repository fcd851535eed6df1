"""The shape of a chain's recipe: stages by name, in their order, and the one budget of all.

A stage names a recipe of its own and says what is changed in it, what it takes from earlier stages
and which part of the budget its releases may cost. Nothing is trained here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from analyst.errors import RecipeError
from analyst.recipes.load import GENERATORS, RecipeBook, table_of, with_values
from analyst.recipes.schema import AboutConfig, Recipe
from analyst.teacher.recipe import TEACHERS, TeacherRecipe

_STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
_NAME: Final = re.compile("[a-z][a-z0-9-]{0,39}")
_SECTIONS: Final = frozenset({"about", "budget", "training", "session", "stage", "chain", "lock"})
_MOST_STAGES: Final = 40

Changes = Annotated[
    dict[str, dict[str, Any]], Field(description="keys of its recipe that are changed, by section")
]
Augment = Annotated[
    float,
    Field(ge=0, le=1, description="how much the images are changed at random, as 'sample' does"),
]
_SHARE: Final = "part of the budget, relative to the shares of other stages"
StageRecipe: TypeAlias = Recipe | TeacherRecipe


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class GeneratorStage:
    """A generator is trained on a release of its own or on that of an earlier stage, and sampled.

    Several members differ in their seeds; their images are mixed in equal parts.
    """

    kind: Literal["generator"]
    recipe: Annotated[
        str | None, Field(description="its recipe; with 'release' that of the earlier stage")
    ] = None
    share: Annotated[float | None, Field(gt=0, description=_SHARE)] = None
    release: Annotated[
        str | None, Field(description="stage whose release it is trained on, for free")
    ] = None
    start_from: Annotated[
        str | None, Field(description="stage whose generators it goes on from")
    ] = None
    teacher: Annotated[str | None, Field(description="stage of the teacher that guides it")] = None
    members: Annotated[int, Field(ge=1, le=100, description="generators, by as many seeds")] = 1
    samples: Annotated[int, Field(ge=2, description="images that are sampled, of all members")]
    augment: Augment = 0.0
    set: Changes = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> GeneratorStage:
        own = self.release is None
        if (self.recipe is not None, self.share is not None) != (own, own):
            msg = "state 'recipe' and 'share', or 'release' alone"
            raise ValueError(msg)
        return self


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class TeacherStage:
    """A network learns an earlier stage's images; a map or class sums on it are charged."""

    kind: Literal["teacher"]
    recipe: Annotated[str, Field(description="its recipe, of 'analyst teacher train'")]
    share: Annotated[float, Field(gt=0, description=_SHARE)]
    source: Annotated[str, Field(description="stage whose images its network learns")]
    set: Changes = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class RefineStage:
    """An earlier stage's images as a teacher sees them, as of `analyst refine`; free."""

    kind: Literal["refine"]
    source: Annotated[str, Field(description="stage whose images are refined")]
    teacher: Annotated[str, Field(description="stage of the teacher, one that taught a map")]
    how: Annotated[
        Literal["label", "drop"], Field(description="what happens where the teacher disagrees")
    ] = "label"
    sure: Annotated[
        float, Field(ge=0, le=1, description="images are dropped of whose class it is less sure")
    ] = 0.0
    augment: Augment = 0.0


Stage: TypeAlias = GeneratorStage | TeacherStage | RefineStage
_AnyStage = Annotated[Stage, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class BudgetConfig:
    """What all releases together may cost."""

    epsilon: Annotated[
        float,
        Field(gt=0, description="the data set's total after the chain, at the data set's delta"),
    ]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ChainTrainingConfig:
    """What all stages have in common."""

    dataset: Annotated[str, Field(min_length=1, description="name of the data set at the curator")]
    seed: Annotated[int, Field(ge=0, lt=2**62, description="seed of all stages")]


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ChainSessionConfig:
    """Where it computes."""

    device: Annotated[str, Field(description="torch device of the generators")] = "cpu"


@dataclass(frozen=True, kw_only=True, slots=True, config=_STRICT)
class ChainRecipe:
    """Stages that share one budget."""

    about: AboutConfig
    budget: BudgetConfig
    training: ChainTrainingConfig
    session: ChainSessionConfig = Field(default_factory=ChainSessionConfig)
    stage: Annotated[dict[str, _AnyStage], Field(min_length=1, max_length=_MOST_STAGES)]

    @model_validator(mode="after")
    def _check(self) -> ChainRecipe:
        """Check the names of stages, and what each takes from those before it.

        Raises:
            ValueError: If they do not go together.
        """
        before: dict[str, Stage] = {}
        for name, stage in self.stage.items():
            if not _NAME.fullmatch(name) or name in _SECTIONS:
                msg = f"'{name}' is no name of a stage: small letters, digits and -, no section"
                raise ValueError(msg)
            for key, kinds in _TAKES.items():
                other = getattr(stage, key, None)
                if other is not None and not isinstance(before.get(other), kinds):
                    msg = f"stage {name}: '{other}' is no earlier stage that gives a {key}"
                    raise ValueError(msg)
            if isinstance(stage, GeneratorStage) and stage.release is not None:
                _check_release(name, stage, before[stage.release])
            before[name] = stage
        if not charged(self):
            msg = "no stage has a share of the budget"
            raise ValueError(msg)
        return self


_TAKES: Final[Mapping[str, tuple[type[Stage], ...]]] = {
    "release": (GeneratorStage,),
    "start_from": (GeneratorStage,),
    "teacher": (TeacherStage,),
    "source": (GeneratorStage, RefineStage),
}
"""By key of a stage: the stages of which it may name one."""

CHAINS: Final = RecipeBook("analyst.chains", ChainRecipe, noun="chain")


def charged(chain: ChainRecipe) -> dict[str, float]:
    """Return the stages that cost something, in their order, with shares that sum to 1."""
    shares = {name: getattr(stage, "share", None) for name, stage in chain.stage.items()}
    stated = {name: share for name, share in shares.items() if share is not None}
    return {name: share / sum(stated.values()) for name, share in stated.items()}


def is_chain(name_or_file: str) -> bool:
    """Return whether a recipe is one of stages; what cannot be read is none."""
    if not name_or_file.endswith(".toml"):
        return name_or_file in CHAINS.names()
    try:
        return "stage" in table_of(CHAINS.text(name_or_file), name_or_file)
    except RecipeError:
        return False  # what is wrong is said when it is read


def load_chain(name_or_file: str, overrides: Mapping[str, Any]) -> ChainRecipe:
    """Read a chain's recipe.

    Args:
        name_or_file: A name, or the path of a TOML file.
        overrides: Values by dotted key; they win over the file. STAGE.KEY is a key of a stage, and
            STAGE.SECTION.KEY one of its recipe.

    Raises:
        RecipeError: If it cannot be read, or a key is unknown, missing or wrong.
    """
    origin = f"chain '{name_or_file}'"
    table = deepcopy(table_of(CHAINS.text(name_or_file), origin))
    stages, of_all = table.get("stage"), dict[str, Any]()
    for key, value in overrides.items():
        first, _, rest = key.partition(".")
        if not isinstance(stages, dict) or not isinstance(stages.get(first), dict):
            of_all[key] = value
            continue
        if "." in rest:
            stages[first]["set"] = with_values(stages[first].get("set", {}), {rest: value})
        else:
            stages[first][rest] = value
    if "training.steps" in of_all:
        message = "each stage of a chain has steps of its own"
        raise RecipeError(message, "Name the stage: --set STAGE.training.steps=N.")
    return CHAINS.from_dict(with_values(table, of_all), origin=origin)


def recipes_of(chain: ChainRecipe) -> dict[str, StageRecipe]:
    """Return the recipes of the stages that train, without the noise that they are to have.

    Raises:
        RecipeError: If one cannot be read, or does not go with its stage.
    """
    found: dict[str, StageRecipe] = {}
    for name, stage in chain.stage.items():
        match stage:
            case GeneratorStage():
                found[name] = _generator(chain, name, stage)
            case TeacherStage():
                changes = _dotted(stage.set) | _of_all(chain)
                found[name] = _loaded(TEACHERS, name, stage.recipe, changes)
            case RefineStage():
                continue
    for name, stage in chain.stage.items():
        if problem := _problem(stage, found.get(name), found):
            message = f"stage {name}: {problem}"
            raise RecipeError(message, f"Change the stage, such as by --set {name}.KEY=VALUE.")
    return found


def stage_book(recipe: StageRecipe) -> RecipeBook[Any]:
    """Return the recipes that one of a stage is of."""
    return TEACHERS if isinstance(recipe, TeacherRecipe) else GENERATORS


def with_noise(recipe: StageRecipe, noise_multiplier: float) -> StageRecipe:
    """Return a recipe with another noise."""
    changed = recipe.mechanism.model_copy(update={"noise_multiplier": noise_multiplier})
    return replace(recipe, mechanism=changed)


def with_seed(recipe: Recipe, seed: int) -> Recipe:
    """Return a recipe with another seed."""
    return replace(recipe, training=replace(recipe.training, seed=seed))


def _generator(chain: ChainRecipe, name: str, stage: GeneratorStage) -> Recipe:
    """Return the recipe of a generator, with the changes of the stage whose release it takes."""
    changes, recipe = dict[str, Any](), stage.recipe
    if stage.release is not None:
        first = chain.stage[stage.release]
        recipe, changes = getattr(first, "recipe", None), _dotted(getattr(first, "set", {}))
    own = _dotted(stage.set) | {"session.device": chain.session.device}
    found: Recipe = _loaded(GENERATORS, name, str(recipe), changes | own | _of_all(chain))
    return found


def _loaded(book: RecipeBook[Any], name: str, recipe: str, changes: dict[str, Any]) -> Any:
    """Read the recipe of a stage.

    Raises:
        RecipeError: If it cannot be read; it names the stage.
    """
    try:
        return book.load(recipe, changes)
    except RecipeError as error:
        message = f"stage {name}: {error.message}"
        raise RecipeError(message, error.remedy) from None


def _of_all(chain: ChainRecipe) -> dict[str, Any]:
    return {"training.dataset": chain.training.dataset, "training.seed": chain.training.seed}


def _dotted(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{section}.{key}": v for section, keys in changes.items() for key, v in keys.items()}


def _check_release(name: str, stage: GeneratorStage, first: Stage) -> None:
    """Check that a release is one that was charged.

    Raises:
        ValueError: If it is not.
    """
    if isinstance(first, GeneratorStage) and first.share is None:
        msg = f"stage {name}: '{stage.release}' has no release of its own"
        raise ValueError(msg)


def _problem(
    stage: Stage, recipe: StageRecipe | None, all_of_them: Mapping[str, StageRecipe]
) -> str:
    """Return what of a stage does not go together; nothing if all does."""
    match stage, recipe:
        case GeneratorStage(), Recipe():
            return _problem_of_generator(stage, recipe, all_of_them)
        case TeacherStage(), TeacherRecipe() if not recipe.source.epochs:
            return "source.epochs is 0, so its network would not learn the images of 'source'"
        case RefineStage(), _ if all_of_them[stage.teacher].mechanism.asks != "gradient":
            return f"'{stage.teacher}' asks for class sums, and teaches no map"
    return ""


def _problem_of_generator(
    stage: GeneratorStage, recipe: Recipe, all_of_them: Mapping[str, StageRecipe]
) -> str:
    """Return what does not go together; nothing if all does."""
    kind, steps = recipe.mechanism.kind, recipe.training.steps
    if recipe.mechanism.pays_per_step and (stage.release is not None or stage.members > 1):
        return f"{kind} pays for every step, so it has no release for several generators"
    if steps == "all":
        return "training.steps = 'all': noise is calibrated to a number of steps"
    if (stage.teacher is not None) != (recipe.training.guidance > 0):
        return f"'teacher' and training.guidance (now {recipe.training.guidance:g}) go together"
    other = None if stage.start_from is None else all_of_them[stage.start_from]
    if isinstance(other, Recipe) and other.generator != recipe.generator:
        return f"it goes on from '{stage.start_from}', whose [generator] is another"
    return ""
