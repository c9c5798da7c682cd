"""What tests ask of a scene's moments."""


def items(moment):
    """The items of a moment by their identity."""
    return {item.id: item for item in moment.items}


def titles(scene):
    """The titles of a scene's moments, in order."""
    return [moment.title for moment in scene.moments]


def shown(moment):
    """The items of a moment that can be seen."""
    return [item for item in moment.items if "gone" not in item.role]
