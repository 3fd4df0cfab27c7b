"""PTX text to a syntax tree and back; knows no opcode.

::

    text -> tokens -> stream -> parser (declarations, expressions) -> ast.Module -> printer -> text

`words` has the words of the grammar that are no instructions. Every node has its span. All problems of a text are found in
one go; what is printed parses back to the same tree.
"""
