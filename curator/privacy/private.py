"""A box for private values that refuses every accidental way out.

It never prints, compares, hashes, iterates, copies or pickles what it holds. `unseal` is called
only in `curator/mechanisms` and `curator/sanitizer`; a test walks the syntax trees to keep it so.
"""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar, final

T_co = TypeVar("T_co", covariant=True)


class SealedError(TypeError):
    """A private value was about to leave its box by accident."""

    def __init__(self) -> None:
        """Say nothing about the value."""
        super().__init__("a private value cannot be printed, compared, iterated, copied or pickled")


class Sealed:
    """Base of what holds private values among others: it is never printed or serialised."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return f"{type(self).__name__}(<sealed>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: private values are never serialised.

        Raises:
            SealedError: Always.
        """
        raise SealedError


@final
class Private(Generic[T_co]):
    """Hold one private value; only mechanisms and the sanitizer may unseal it."""

    __slots__ = ("__value",)

    def __init__(self, value: T_co) -> None:
        """Seal `value`."""
        self.__value = value

    def unseal(self) -> T_co:
        """Return the private value; what is computed from it must end in the sanitizer."""
        return self.__value

    def __repr__(self) -> str:
        """Return a constant, whatever is inside."""
        return "Private(<sealed>)"

    def __eq__(self, other: object) -> NoReturn:
        """Refuse: a comparison is a query."""
        raise SealedError

    def __hash__(self) -> NoReturn:
        """Refuse: a hash is a query."""
        raise SealedError

    def __bool__(self) -> NoReturn:
        """Refuse: control flow must not depend on a private value."""
        raise SealedError

    def __len__(self) -> NoReturn:
        """Refuse: the realised batch size is private."""
        raise SealedError

    def __iter__(self) -> NoReturn:
        """Refuse: the number of iterations is private."""
        raise SealedError

    def __format__(self, format_spec: str) -> str:
        """Return a constant, whatever is inside."""
        return repr(self)

    def __copy__(self) -> NoReturn:
        """Refuse: one box, one owner."""
        raise SealedError

    def __deepcopy__(self, memo: object) -> NoReturn:
        """Refuse: one box, one owner."""
        raise SealedError

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse: private values are never serialised."""
        raise SealedError
