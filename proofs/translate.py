"""Write functions of the code as definitions of Coq, operation by operation.

The translation is of syntax alone: every operation becomes one application whose meaning
`coq/Python.v` gives by the types. What is not in the tables below is refused, so that nothing is
left out silently. What raises becomes `None`, and so does Python's own None; types that are
annotated are believed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "py_add",
    ast.Sub: "py_sub",
    ast.Mult: "py_mul",
    ast.FloorDiv: "py_floordiv",
    ast.Div: "py_div",
    ast.Pow: "py_pow",
    ast.RShift: "py_rshift",
    ast.LShift: "py_lshift",
    ast.BitAnd: "py_and",
}
CALLS: Final = {
    "int": "py_int",
    "sum": "py_sum",
    "min": "py_min",
    "max": "py_max",
    "any": "py_any",
    "len": "py_len",
    "zip": "py_zip",
    "range": "py_range",
    "math.isqrt": "py_isqrt",
    "math.ceil": "py_ceil",
    "torch.dot": "dot",
    "Fraction": "fraction",
}
UNCHANGED: Final = {"tuple", "Cost"}  # a cost is its units, and a tuple is a list
METHODS: Final = {
    "reshape(-1)": "flat",
    "flatten(1)": "flatten_1",
    "clamp(,)": "clamp",
    "clamp(max=)": "clamp_max",
    "square()": "square",
    "square_()": "square",
    "sum(dim=1)": "sum_dim_1",
    "sum(dim=1,keepdim=True)": "sum_dim_1_keepdim",
    "numel()": "numel",
    "tolist()": "tolist",
    "index_add_(0,,)": "index_add",
}
KEYWORDS: Final = {"at", "as", "end", "in", "match", "with", "then", "fun", "let", "where"}


class Untranslated(Exception):
    """Something that the tables do not hold."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__(
            f"{ast.unparse(node)}: no translation; add one to translate.py, its meaning to "
            "coq/Python.v, and look at the proof again"
        )


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of the code, and the types of its parameters in Coq.

    Attributes:
        path: Of its file, below the root.
        name: With the class, if it is a method.
        coq: Its name in Coq.
        types: Of its parameters, in order.
    """

    path: str
    name: str
    coq: str
    types: tuple[str, ...]


def find(tree: ast.Module, name: str) -> ast.FunctionDef:
    """Return a function, or a method as `Class.method`.

    Raises:
        LookupError: If there is none, or more than one.
    """
    nodes: Sequence[ast.AST] = [tree]
    for part in name.split("."):
        kinds = ast.FunctionDef, ast.ClassDef
        bodies = [one for node in nodes for one in getattr(node, "body", [])]
        nodes = [one for one in bodies if isinstance(one, kinds) and one.name == part]
    if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef):
        msg = f"{name} is not one function any more: say in proofs/subjects.py what is proved now"
        raise LookupError(msg)
    return nodes[0]


def constant(tree: ast.Module, name: str) -> str:
    """Return the value of a module's constant, for Coq.

    Raises:
        LookupError: If the module has no such constant.
    """
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name:
            value = node.value  # type: ignore[attr-defined]
            match value:
                case ast.Call(func=ast.Name(id="Fraction"), args=[top, bottom]):
                    return f"({ast.literal_eval(top)} # {ast.literal_eval(bottom)})%Q"
                case ast.Constant(value=float() as number):
                    return _fraction(number)
                case ast.BinOp(
                    ast.Constant(float() as base), ast.Pow(), ast.Constant(int() as power)
                ):
                    return _fraction(base**power)
                case ast.Tuple():
                    return f"[{'; '.join(map(_fraction, numbers(value)))}]"
                case _:
                    pass
            return f"{Writer({}).expression(value)} : Z"
    msg = f"there is no constant {name} any more: say in proofs/subjects.py what is proved now"
    raise LookupError(msg)


@dataclass(frozen=True)
class Writer:
    """Writes expressions and statements; `names` has the Coq names of what the module defines."""

    names: Mapping[str, str]
    optional: bool = False

    def expression(self, node: ast.expr) -> str:
        """Return an expression in parentheses.

        Raises:
            Untranslated: If a part of it has no translation.
        """
        match node:
            case ast.Constant(value=bool() as value):
                return str(value).lower()
            case ast.Constant(value=int() as value):
                return f"({value})"
            case ast.Name(id=name):
                return self.names.get(name, f"{name}'" if name in KEYWORDS else name)
            case ast.Attribute(value=of, attr=name):
                return f"({self.names.get(name, name)} {self.expression(of)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                operator = OPERATORS[type(op)]
                return f"({operator} {self.expression(left)} {self.expression(right)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(py_neg {self.expression(operand)})"
            case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() | ast.Compare():
                return self.test(node)  # of values that are truth values
            case ast.Call():
                return self.call(node)
            case ast.GeneratorExp(elt=element, generators=[of]):
                return self.comprehension(element, of)
            case ast.ListComp(elt=element, generators=[of]):
                return self.comprehension(element, of)
            case ast.IfExp():
                return self.choice(node)
            case ast.Subscript(value=of, slice=ast.Slice(lower=ast.expr() as low, upper=high)):
                if high is not None:
                    parts = self.expression(of), self.expression(low), self.expression(high)
                    return f"(py_slice {' '.join(parts)})"
            case _:
                pass
        raise Untranslated(node)

    def test(self, node: ast.expr) -> str:
        """Return an expression as a truth value."""
        match node:
            case ast.BoolOp(op=ast.And(), values=[first, *rest]) if name := _checked(first):
                others = " && ".join(map(self.test, rest))
                return f"match {name} with Some {name} => {others} | None => false end"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(negb {self.test(operand)})"
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return f"({sign.join(map(self.test, values))})"
            case ast.Compare(left=left, ops=[*ops], comparators=[*rights]):
                pairs = zip([left, *rights[:-1]], ops, rights, strict=True)
                texts = [self.comparison(*pair) for pair in pairs]
                return texts[0] if len(texts) == 1 else f"({' && '.join(texts)})"
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                return "false" if ast.unparse(kind) == "bool" else "true"  # by the annotation
            case _:
                pass
        return f"(py_truth {self.expression(node)})"

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
        """Return one comparison."""
        match op, right:
            case ast.LtE(), _:
                return f"(py_le {self.expression(left)} {self.expression(right)})"
            case ast.Lt(), ast.Attribute(value=ast.Name(id="math"), attr="inf"):
                return f"(below_infinity {self.expression(left)})"
            case ast.Lt(), _:
                return f"(py_lt {self.expression(left)} {self.expression(right)})"
            case ast.In(), _ if _is_none(left):
                return f"(py_has_none {self.expression(right)})"
            case ast.NotIn(), _ if _is_none(left):
                return f"(negb (py_has_none {self.expression(right)}))"
            case ast.NotIn(), ast.Set(elts=items):
                found = (
                    f"(py_eq {self.expression(left)} {self.expression(item)})" for item in items
                )
                return f"(negb ({' || '.join(found)}))"
            case ast.Eq(), _:
                return f"(py_eq {self.expression(left)} {self.expression(right)})"
            case ast.IsNot(), ast.Name(id="int") if ast.unparse(left).startswith("type("):
                return "false"  # by the annotation
            case _:
                pass
        raise Untranslated(ast.Compare(left, [op], [right]))

    def call(self, node: ast.Call) -> str:
        """Return a call of a function or a method."""
        function, args = ast.unparse(node.func), node.args
        match function, node:
            case "Cost.zero", _:
                return f"(no_cost {self.names['ORDERS']})"
            case "map", ast.Call(args=[ast.Name(id="add"), left, right]):
                return f"(py_map2 py_add {self.expression(left)} {self.expression(right)})"
            case "torch.stack", ast.Call(args=[ast.Tuple(elts=[a, b, c])]):
                if ast.unparse(node).endswith(", dim=1)"):
                    return f"(stack_3 {' '.join(map(self.expression, (a, b, c)))})"
            case _:
                pass
        if isinstance(node.func, ast.Attribute) and not function.startswith(("math.", "torch.")):
            return self.method(node, node.func)
        keywords = [ast.unparse(keyword) for keyword in node.keywords]
        if function in UNCHANGED and len(args) == 1 and not keywords:
            return self.expression(args[0])
        name = CALLS.get(function, self.names.get(function))
        if name is None or keywords not in ([], ["strict=True"]):
            raise Untranslated(node)
        return f"({name} {' '.join(map(self.expression, args))})"

    def method(self, node: ast.Call, function: ast.Attribute) -> str:
        """Return a call of a method; `tensor.new_zeros(n)` is n zeros."""
        if ast.unparse(node).startswith("float(") and function.attr == "as_integer_ratio":
            of = function.value
            return f"(ratio {self.expression(of.args[0])})"  # type: ignore[attr-defined]
        if function.attr == "as_integer_ratio":
            return f"(ratio {self.expression(function.value)})"
        if function.attr in {"new_zeros", *self.names} and node.keywords:
            raise Untranslated(node)
        if function.attr == "new_zeros":
            return f"(zeros {self.expression(node.args[0])})"
        if function.attr in self.names:
            given = map(self.expression, [function.value, *node.args])
            return f"({self.names[function.attr]} {' '.join(given)})"
        shapes = {"0", "1", "-1", "True"}
        marks = [text if (text := ast.unparse(one)) in shapes else "" for one in node.args]
        open_ones = [one for one in node.args if ast.unparse(one) not in shapes]
        for keyword in node.keywords:
            text = ast.unparse(keyword.value)
            marks.append(f"{keyword.arg}={text if text in shapes else ''}")
            open_ones += [] if text in shapes else [keyword.value]
        name = METHODS.get(f"{function.attr}({','.join(marks)})")
        if name is None:
            raise Untranslated(node)
        return f"({name} {' '.join(map(self.expression, [function.value, *open_ones]))})"

    def comprehension(self, element: ast.expr, of: ast.comprehension) -> str:
        """Return a comprehension over one list, all of it or what is not None."""
        bound, source = _pattern(of.target), self.expression(of.iter)
        if not of.ifs:
            return f"(py_map {source} (fun {bound} => {self.expression(element)}))"
        name = _checked(of.ifs[0])
        if len(of.ifs) > 1 or not name:
            raise Untranslated(of.target)
        some = (
            f"match {name} with Some {name} => Some {self.expression(element)} | None => None end"
        )
        return f"(py_filter_map {source} (fun {bound} => {some}))"

    def choice(self, node: ast.IfExp) -> str:
        """Return a conditional; the other side of None is Some."""
        body, otherwise, tests = node.body, node.orelse, [node.test]
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
            tests = node.test.values
        missing = [_missing(test) for test in tests]
        if _is_none(body) and all(missing):
            some = ", ".join(f"Some {name}" for name in missing)
            rest = ", ".join("_" for _ in missing)
            value = self.expression(otherwise)
            return f"(match {', '.join(missing)} with {some} => Some {value} | {rest} => None end)"
        if not _is_none(otherwise) and not _is_none(body):
            either = self.expression(body), self.expression(otherwise)
            return f"(if ({self.test(node.test)} : bool) then {either[0]} else {either[1]})"
        if not _is_none(otherwise):
            raise Untranslated(node)
        return f"(if {self.test(node.test)} then Some {self.expression(body)} else None)"

    def block(self, body: Sequence[ast.stmt]) -> str:
        """Return statements that end in a return, or in raising."""
        if not body:
            return "Some tt"
        first, rest = body[0], body[1:]
        match first:
            case ast.Raise():
                return "None"
            case ast.Expr(value=ast.Constant()):
                return self.block(rest)
            case ast.Assign(targets=[ast.Name(id="msg")]):
                return self.block(rest)
            case ast.Expr(value=ast.Call() as call):
                done = f"match {self.call(call)} with None => None | Some _ =>"
                return f"{done}\n  {self.block(rest)} end"
            case ast.Return(value=ast.expr() as value):
                return self.returned(value)
            case ast.If(test=test, body=[*_, ast.Return() | ast.Raise()] as inner, orelse=[]):
                then, otherwise = self.block(inner), self.block(rest)
                return f"if ({self.test(test)} : bool) then {then} else\n  {otherwise}"
            case ast.Assign(targets=[ast.Name() as name], value=value):
                bound = self.expression(name)
                return f"let {bound} := {self.expression(value)} in\n  {self.block(rest)}"
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                used = {
                    one.id
                    for value in values
                    for one in ast.walk(value)
                    if isinstance(one, ast.Name)
                }
                if used & {ast.unparse(name) for name in names}:
                    raise Untranslated(first)
                pairs = zip(map(self.expression, names), map(self.expression, values), strict=True)
                bound = "".join(f"let {name} := {value} in\n  " for name, value in pairs)
                return bound + self.block(rest)
            case ast.Assign(targets=[ast.Tuple() as names], value=value):
                return f"let {_pattern(names)} := {self.expression(value)} in\n  {self.block(rest)}"
            case _:
                raise Untranslated(first)

    def returned(self, value: ast.expr) -> str:
        """Return what a function returns."""
        if _is_none(value):
            return "None"
        text = self.expression(value)
        chooses = isinstance(value, ast.IfExp)  # of which one side is None
        return text if not self.optional or chooses else f"Some {text}"


def numbers(node: ast.Tuple) -> Iterator[float]:
    """Yield the items of a tuple of numbers, with those of tuples in it."""
    for one in node.elts:
        if isinstance(one, ast.Starred) and isinstance(one.value, ast.Tuple):
            yield from numbers(one.value)
        else:
            yield float(ast.literal_eval(one))


def _fraction(number: float) -> str:
    top, bottom = number.as_integer_ratio()
    return f"({top} # {bottom})%Q"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _checked(node: ast.expr) -> str:
    """Return the name in `name is not None`, or nothing."""
    match node:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[right]):
            return name if _is_none(right) else ""
        case _:
            return ""


def _missing(node: ast.expr) -> str:
    """Return the name in `name is None`, or nothing."""
    match node:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[right]):
            return name if _is_none(right) else ""
        case _:
            return ""


def _pattern(node: ast.expr) -> str:
    """Return names that a tuple is taken apart into."""
    if isinstance(node, ast.Tuple):
        return f"'({', '.join(map(_pattern, node.elts))})"
    if not isinstance(node, ast.Name):
        raise Untranslated(node)
    return node.id


def definition(function: Function, node: ast.FunctionDef, names: Mapping[str, str]) -> str:
    """Return a function as a definition of Coq.

    Raises:
        Untranslated: If a part of it has no translation, or it has other parameters.
    """
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    if len(arguments) != len(function.types):
        raise Untranslated(node)
    bound = "".join(
        f" ({one.arg} : {kind})" for one, kind in zip(arguments, function.types, strict=True)
    )
    returns = ast.unparse(node.returns) if node.returns else "None"
    raises = any(isinstance(one, ast.Raise) for one in ast.walk(node))
    writer = Writer(names, optional=raises or "None" in returns)
    return f"Definition {function.coq}{bound} :=\n  {writer.block(node.body)}.\n"


def code(
    root: Path, constants: Sequence[tuple[str, str, str]], functions: Sequence[Function]
) -> str:
    """Return the file of Coq that has the constants and functions of the code.

    Args:
        root: Of the repository, or of a copy.
        constants: Path, name and name in Coq.
        functions: In an order in which none is used before it is defined.
    """
    trees = {path: ast.parse((root / path).read_text()) for path, *_ in constants}
    trees |= {one.path: ast.parse((root / one.path).read_text()) for one in functions}
    parts = ["From Coq Require Import ZArith List Bool QArith.", "From Weir Require Import Python."]
    parts += ["Import ListNotations.", "Open Scope bool_scope.", "Open Scope Z_scope.", ""]
    parts += [
        f"Definition {coq} := {constant(trees[path], name)}." for path, name, coq in constants
    ]
    names = {name: coq for _, name, coq in constants}
    for one in functions:
        of_file = names | {name: coq for path, name, coq in constants if path == one.path}
        node = find(trees[one.path], one.name)
        parts.append(f"\n(* {one.path}: {one.name} *)\n{definition(one, node, of_file)}")
        names[one.name.split(".")[-1]] = one.coq
    return "\n".join(parts)
