"""A nested structure to JSON and back: the program that the gallery runs in Python."""

import json


def tree(depth: int) -> dict[str, object]:
    """A binary tree of objects with a list, numbers and strings in each."""
    children = [tree(depth - 1), tree(depth - 1)] if depth else []
    sizes = [depth * 0.5, depth, None]
    return {"name": f"node {depth}", "sizes": sizes, "leaf": not depth, "children": children}


text = json.dumps(tree(9))
again = json.loads(text)
assert json.dumps(again, sort_keys=True, indent=1).count("node") == 2**10 - 1
print(len(text))
