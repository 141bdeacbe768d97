"""Parser of CEL. Length, nesting and depth are limited, so that no expression exhausts the stack."""

from dataclasses import dataclass

from volcano.kube.cel.errors import CompilationError, Issue, SourceTooLarge
from volcano.kube.cel.lexer import RESERVED, Token, checked_int, tokens
from volcano.kube.cel.macros import MACROS, MacroError, OnlyReceiver, bind
from volcano.kube.cel.syntax import (
    Call,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    children,
)
from volcano.kube.cel.values import Uint

LONGEST_SOURCE = 100_000  # code points, as in cel-go
# cel-go allows 250 of both; these fit the stack of Python with room for the caller.
DEEPEST_NESTING = 100
DEEPEST_TREE = 200

_BINARY = {
    "||": (1, "_||_"), "&&": (2, "_&&_"), "<": (3, "_<_"), "<=": (3, "_<=_"), ">": (3, "_>_"), ">=": (3, "_>=_"),
    "==": (3, "_==_"), "!=": (3, "_!=_"), "in": (3, "@in"), "+": (4, "_+_"), "-": (4, "_-_"), "*": (5, "_*_"),
    "/": (5, "_/_"), "%": (5, "_%_"),
}  # fmt: skip
_CONSTANTS = {"true": True, "false": False, "null": None}
_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, "
    "IDENTIFIER}"
)


def parse(source: str, *, bindings: bool = False) -> Expression:
    """Syntax tree of an expression; with `bindings`, `cel.bind` is known.

    Raises `CompilationError` or `SourceTooLarge`.
    """
    if len(source) > LONGEST_SOURCE:
        raise SourceTooLarge(
            f"ERROR: <input>:-1:0: expression code point size exceeds limit: size: {len(source)}, "
            f"limit {LONGEST_SOURCE}"
        )
    return _Parser(source, bindings).parse()


@dataclass(slots=True, eq=False)
class _Chain(Expression):
    """Terms of one `&&` or `||` without parentheses; built as a balanced tree, because such chains are long."""

    function: str
    terms: list[Expression]


class _Parser:
    def __init__(self, source: str, bindings: bool) -> None:
        self._source = source
        self._bindings = bindings
        self._tokens = tokens(source)
        self._at = 0
        self._nesting = 0

    def parse(self) -> Expression:
        found = self._expression()
        if self._next.kind != "end":
            raise self._unexpected("<EOF>")
        return found

    # -- tokens ------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _accept(self, kind: str) -> bool:
        if self._next.kind == kind:
            self._at += 1
            return True
        return False

    def _expect(self, kind: str) -> Token:
        token = self._next
        if token.kind != kind:
            raise self._unexpected(f"'{kind}'")
        self._at += 1
        return token

    def _unexpected(self, expected: str) -> CompilationError:
        token = self._next
        shown = "<EOF>" if token.kind == "end" else self._source[token.offset :].split()[0][:40]
        return self._error(token.offset, f"Syntax error: mismatched input '{shown}' expecting {expected}")

    def _error(self, offset: int, message: str) -> CompilationError:
        return CompilationError(self._source, [Issue(offset, message)])

    def _made(self, node: Expression) -> Expression:
        """Records the depth of a new node and of the nodes that a macro made below it."""
        node.depth = 1 + max((self._depth(child) for child in children(node)), default=0)
        if node.depth > DEEPEST_TREE:
            raise SourceTooLarge("ERROR: <input>:-1:0: max recursion depth exceeded")
        return node

    def _depth(self, node: Expression) -> int:
        if node.depth == 1 and children(node):
            self._made(node)
        return node.depth

    # -- expressions -------------------------------------------------------------------------------------------------

    def _expression(self) -> Expression:
        self._nesting += 1
        if self._nesting > DEEPEST_NESTING:
            raise SourceTooLarge(
                f"ERROR: <input>:-1:0: expression recursion limit exceeded: {DEEPEST_NESTING}"
            )
        found = self._operations()
        offset = self._next.offset
        if self._accept("?"):
            when_true = self._operations()
            self._expect(":")
            found = self._made(Call(offset, "_?_:_", [found, when_true, self._expression()]))
        self._nesting -= 1
        return found

    def _operations(self) -> Expression:
        """Binary operators by precedence, with a stack instead of recursion."""
        operands: list[Expression] = [self._operand()]
        operators: list[tuple[int, str, int]] = []
        while (operator := self._operator()) is not None:
            precedence, function = operator
            while operators and operators[-1][0] >= precedence:
                self._reduce(operands, operators)
            operators.append((precedence, function, self._next.offset))
            self._at += 1
            operands.append(self._operand())
        while operators:
            self._reduce(operands, operators)
        return self._unchained(operands[0])

    def _operator(self) -> tuple[int, str] | None:
        token = self._next
        return _BINARY.get("in" if token.kind == "name" and token.value == "in" else token.kind)

    def _reduce(self, operands: list[Expression], operators: list[tuple[int, str, int]]) -> None:
        _, function, offset = operators.pop()
        right, left = self._unchained(operands.pop()), operands.pop()
        if function in ("_&&_", "_||_"):
            if isinstance(left, _Chain) and left.function == function:
                left.terms.append(right)
                operands.append(left)
            else:
                operands.append(_Chain(offset, function, [self._unchained(left), right]))
            return
        operands.append(self._made(Call(offset, function, [self._unchained(left), right])))

    def _unchained(self, node: Expression) -> Expression:
        return self._balanced(node, node.terms) if isinstance(node, _Chain) else node

    def _balanced(self, chain: _Chain, terms: list[Expression]) -> Expression:
        if len(terms) == 1:
            return terms[0]
        middle = (len(terms) + 1) // 2
        halves = [self._balanced(chain, terms[:middle]), self._balanced(chain, terms[middle:])]
        return self._made(Call(chain.offset, chain.function, halves))

    def _operand(self) -> Expression:
        """Unary operators, a primary expression, then selections, calls and indexes."""
        first = self._next
        count = 0
        while first.kind in ("!", "-") and self._accept(first.kind):
            count += 1
        if count == 1 and first.kind == "-" and self._next_is_number():
            node = self._postfix(self._negative(first.offset))
        else:
            node = self._postfix(self._primary())
            if count % 2:
                function = "!_" if first.kind == "!" else "-_"
                node = self._made(Call(first.offset, function, [node]))
        return node

    def _next_is_number(self) -> bool:
        token = self._next
        return token.kind == "literal" and token.value.__class__ in (int, float)

    def _negative(self, offset: int) -> Literal:
        value = self._next.value
        self._at += 1
        return Literal(
            offset, -value if isinstance(value, float) else checked_int(self._source, offset, -value)
        )

    def _primary(self) -> Expression:
        token = self._next
        if token.kind == "literal":
            self._at += 1
            if token.value.__class__ is int and not isinstance(token.value, Uint):
                checked_int(self._source, token.offset, token.value)
            return Literal(token.offset, token.value)
        if self._accept("("):
            found = self._expression()
            self._expect(")")
            return found
        if self._accept("["):
            return self._list(token.offset)
        if self._accept("{"):
            return self._map(token.offset)
        if token.kind == "." and self._tokens[self._at + 1].kind == "name":
            self._at += 1
        if self._next.kind == "name" and self._next.value != "in":
            return self._name()
        raise self._unexpected(_OPERAND)

    def _name(self) -> Expression:
        token = self._expect("name")
        if token.value in _CONSTANTS:
            return Literal(token.offset, _CONSTANTS[token.value])
        opening = self._next.offset
        if self._accept("("):
            return self._call(opening, token.value, None, self._arguments(")"))
        if token.value in RESERVED:
            raise self._error(token.offset, f"reserved identifier: {token.value}")
        if self._next.kind == "{":
            raise self._error(token.offset, f"undeclared reference to '{token.value}' (in container '')")
        return Ident(token.offset, token.value)

    def _postfix(self, node: Expression) -> Expression:
        while True:
            offset = self._next.offset
            if self._accept("."):
                node = self._member(node, offset)
            elif self._accept("["):
                function = "_[?_]" if self._accept("?") else "_[_]"
                index = self._expression()
                self._expect("]")
                node = self._made(Call(offset, function, [node, index]))
            else:
                return node

    def _member(self, node: Expression, dot: int) -> Expression:
        optional = self._accept("?")
        token = self._next
        if token.kind != "name" or token.value == "in":
            raise self._unexpected("IDENTIFIER")
        self._at += 1
        if optional:
            return self._made(Call(dot, "_?._", [node, Literal(token.offset, token.value)]))
        opening = self._next.offset
        if self._accept("("):
            return self._call(opening, token.value, node, self._arguments(")"))
        return self._made(Select(dot, node, token.value))

    def _arguments(self, closing: str) -> list[Expression]:
        found: list[Expression] = []
        if self._accept(closing):
            return found
        found.append(self._expression())
        while self._accept(","):
            found.append(self._expression())
        self._expect(closing)
        return found

    def _call(
        self, offset: int, function: str, target: Expression | None, arguments: list[Expression]
    ) -> Expression:
        macro = MACROS.get((function, len(arguments), target is not None))
        if self._bindings and function == "bind" and len(arguments) == 3 and _is_cel(target):
            macro = bind
        if macro is not None:
            try:
                return self._made(macro(offset, target if target is not None else OnlyReceiver, arguments))
            except MacroError as error:
                raise self._error(error.offset, str(error)) from None
        return self._made(Call(offset, function, arguments, target))

    def _list(self, offset: int) -> Expression:
        elements: list[Expression] = []
        optional: set[int] = set()
        while not self._accept("]"):
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                self._expect("]")
                break
        return self._made(ListLiteral(offset, elements, frozenset(optional)))

    def _map(self, offset: int) -> Expression:
        entries: list[tuple[Expression, Expression, bool]] = []
        while not self._accept("}"):
            optional = self._accept("?")
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
            if not self._accept(","):
                self._expect("}")
                break
        return self._made(MapLiteral(offset, entries))


def _is_cel(target: Expression | None) -> bool:
    return isinstance(target, Ident) and target.name == "cel"
