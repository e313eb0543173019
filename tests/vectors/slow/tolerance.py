"""How many low bits of each linear step's output nobody will miss (reference chapter, "Tolerance").

The bits of a value are those of a variance: two to each bit of a number. They are followed from the last step to the first.
"""

from .outline import INTERACTIVE


def logarithm(number):
    """To base two, rounded up."""
    return max(number - 1, 0).bit_length()


def values_with_errors(outline):
    erring = [False]
    for step in outline.steps:
        inherits = step.operation not in INTERACTIVE and any(erring[value] for value in step.inputs)
        erring.append(step.operation == "linear" or inherits)
    return erring


def left_by(outline, step, number, after, erring):
    """What a step leaves of its input with this number, given what is left of its output."""
    if step.operation in ("activate", "gate"):
        return 2 * step.fields[1]
    if step.operation == "maximum":
        return 0
    if step.operation == "linear":
        conv, shifts = step.fields
        taps = conv.inputs // conv.groups * conv.filter**2
        return after - 2 * max(shifts) - logarithm(taps * (outline.weight_bound**2 // 16)) - 1
    if step.operation == "add":
        return after - 2 * step.fields[0][number] - logarithm(sum(erring[value] for value in step.inputs))
    if step.operation == "concat":
        return after - 2 * step.fields[0][number]
    if step.operation == "sum pool":
        return after - logarithm(step.fields[0].window**2)
    if step.operation == "global sum":
        shape = outline.shape(step.inputs[number])
        return after - logarithm(shape.height * shape.width)
    if step.operation == "scale pixels":
        return after - 2 * logarithm(max(step.fields[0]))
    return after


def tolerances(outline):
    """By linear step."""
    erring, left, found = values_with_errors(outline), {len(outline.steps): 2 * outline.logit_drop}, {}
    for place in reversed(range(len(outline.steps))):
        step, after = outline.steps[place], left.get(place + 1, 0)
        if step.operation == "linear":
            found[place] = max(0, after - 2 * max(step.fields[1]) - erring[step.inputs[0]]) // 2
        for number, value in enumerate(step.inputs):
            bits = left_by(outline, step, number, after, erring)
            left[value] = min(left.get(value, bits), bits)
    return found
