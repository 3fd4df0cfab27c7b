"""PTX text to a syntax tree and back, without knowledge of any opcode.

::

    text -> tokens -> parser (declarations, expressions) -> ast.Module -> printer -> text

`outline` leaves out the bodies of functions, which are parsed later or not at all. `words` has the words of directives. Every node has its span. All problems of a text are found in
one pass. Printed text parses back to the same tree.
"""
