"""What a source holds, counted while it is read once; private, for the steward alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from curator.data.levels import Levels
from curator.privacy.batches import LARGEST_LEVEL
from curator.sources.conversion import is_rotated
from curator.sources.convert import Converted
from curator.sources.decode_image import ENDINGS, OpenedImage
from curator.sources.listing import Entry


@dataclass(kw_only=True, slots=True)
class Survey:
    """Counts over a source; `classes` in the order that numbers them."""

    source: str
    classes: tuple[str, ...] = ()
    refusals: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    duplicates: list[tuple[str, str]] = field(default_factory=list)
    images: int = 0
    per_class: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    conversions: Counter[str] = field(default_factory=Counter)
    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter)  # as they will be stored
    lowest: int = LARGEST_LEVEL
    highest: int = 0
    num_mixed_duplicates: int = 0
    channels: int | None = None  # of arrays, which have no mode
    group_sizes: Counter[str] = field(default_factory=Counter)
    group_classes: dict[str, set[str]] = field(default_factory=dict)
    alike_groups: list[tuple[str, str]] = field(default_factory=list)
    _first: dict[bytes, tuple[str, str]] = field(default_factory=dict)

    def add_opened(self, entry: Entry, opened: OpenedImage) -> None:
        """Count what a file is, before it is converted or refused."""
        self.formats[opened.file_format] += 1
        self.modes[opened.mode] += 1
        self.depths[opened.depth] += 1
        self.sizes[opened.size] += 1
        for feature, is_there in (
            ("rotated by EXIF", is_rotated(opened)),
            ("transparent", opened.has_alpha),
            ("several frames", opened.has_frames),
            ("colour profile, which is not applied", opened.has_profile),
            ("named as another format", not _has_its_ending(entry, opened)),
        ):
            self.features[feature] += is_there

    def add_converted(self, entry: Entry, converted: Converted) -> None:
        """Count an image that is taken."""
        self.conversions.update(converted.done)
        self.add(entry.name, entry.label, converted.levels, entry.group)

    def add(self, name: str, label: str, levels: Levels, group: str | None = None) -> None:
        """Count an image that is taken."""
        self.images += 1
        self.shapes[levels.shape] += 1
        self.per_class[label] += 1
        self.lowest = min(self.lowest, int(levels.min()))
        self.highest = max(self.highest, int(levels.max()))
        if group is not None:
            self.group_sizes[group] += 1
            self.group_classes.setdefault(group, set()).add(label)
        head = repr(levels.shape).encode()
        digest = hashlib.blake2b(head + levels.tobytes(), digest_size=16).digest()
        first, first_label = self._first.setdefault(digest, (name, label))
        if first != name:
            self.duplicates.append((name, first))
            self.num_mixed_duplicates += first_label != label

    @property
    def num_taken(self) -> int:
        """Images that would be taken; arrays are refused as a whole."""
        return 0 if self.channels is not None and self.refusals else self.images

    def as_json(self) -> dict[str, object]:
        """Return everything as one JSON object."""
        sizes = {f"{width}x{height}": count for (width, height), count in self.sizes.most_common()}
        groups = None
        if self.group_sizes:
            groups = {
                "groups": len(self.group_sizes),
                "largest": max(self.group_sizes.values()),
                "of_several_images": sum(count > 1 for count in self.group_sizes.values()),
                "of_several_classes": sum(len(names) > 1 for names in self.group_classes.values()),
                "alike_but_for_case": _pairs(self.alike_groups, "group", "same_as"),
            }
        return {
            "source": self.source,
            "private": True,
            "accepted": not self.refusals,
            "images": self.images,
            "classes": {name: self.per_class[name] for name in self.classes},
            "formats": dict(self.formats),
            "modes": dict(self.modes),
            "bit_depths": {str(depth): count for depth, count in self.depths.items()},
            "sizes": sizes,
            "levels": [self.lowest, self.highest] if self.images else None,
            "features": {name: count for name, count in self.features.items() if count},
            "conversions": dict(self.conversions),
            "groups": groups,
            "duplicates": _pairs(self.duplicates, "name", "same_as"),
            "duplicates_of_another_class": self.num_mixed_duplicates,
            "left_out": _pairs(self.left_out, "name", "why"),
            "refused": _pairs(self.refusals, "name", "why"),
        }


def _pairs(pairs: Sequence[tuple[str, str]], *keys: str) -> list[dict[str, str]]:
    return [dict(zip(keys, pair, strict=True)) for pair in pairs]


def _has_its_ending(entry: Entry, opened: OpenedImage) -> bool:
    return entry.name.lower().endswith(ENDINGS.get(opened.file_format, ENDINGS["JPEG"]))
