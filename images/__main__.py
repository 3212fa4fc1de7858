# SPDX-License-Identifier: Apache-2.0
"""`python -m images`: build every image, export archives, and write their digests to build/images.json."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from images.build import Builder, Image, ImageError
from images.recipes import recipes
from tools.file_lock import locked

CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(prog="python -m images", description=__doc__)
    parser.add_argument("--cache", type=Path, default=_cache(), help="folder for layers and archives (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "build" / "images.json", help="where digests go (default: %(default)s)")
    parser.add_argument("--print-archives", action="store_true", help="build nothing; print the archives of the last build")
    parser.add_argument("--push", metavar="REGISTRY", help="also copy the images there and print the `images` block of a stack file")
    args = parser.parse_args()
    if args.print_archives:
        print(*(image["archive"] for image in json.loads(args.output.read_text()).values()))
        return 0
    builder = Builder(CHECKOUT, args.cache)
    try:
        with locked(args.cache / "lock", on_wait=lambda: print("waiting for another build of images", flush=True)):
            images = build(builder)
    except ImageError as err:
        print(f"images: {err}", file=sys.stderr)
        return 1
    args.output.parent.mkdir(parents=True, exist_ok=True)
    found = {image.name: {"reference": image.reference, "tag": image.tag, "archive": str(image.archive)} for image in images}
    args.output.write_text(json.dumps(found, indent=2) + "\n")
    return _push(builder, images, args.push) if args.push else 0


def build(builder: Builder) -> list[Image]:
    """Build what is not current, one line per image."""
    start = time.monotonic()
    tags = {"base": builder.base()}
    print(f"image base       {time.monotonic() - start:6.1f} s  {tags['base']}", flush=True)
    images = []
    for recipe in recipes(CHECKOUT / ".tools" / "bin"):
        start = time.monotonic()
        image = builder.image(recipe, tags)
        tags[recipe.name] = image.tag
        images.append(image)
        print(f"image {image.name:<10} {time.monotonic() - start:6.1f} s  {image.tag}", flush=True)
    return images


def _push(builder: Builder, images: list[Image], registry: str) -> int:
    lines = ["images:", "  source: registry", f"  registry: {registry}"]
    for image in images:
        try:
            digest = builder.push(image, registry)
        except ImageError as err:
            print(f"images: {err}\nLog in first: buildah login {registry.partition('/')[0]}", file=sys.stderr)
            return 1
        lines.append(f"  {image.name}: {{tag: '{image.tag}', digest: '{digest}'}}")
        print(f"image {image.name:<10} pushed  {digest}", flush=True)
    print("\nIn your stack file, under ascend-pd:stack:\n", *lines, sep="\n")
    return 0


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ascend-pd" / "images"


if __name__ == "__main__":
    sys.exit(main())
