"""From a syntax tree to a typed program: resolves every name and matches every instruction to a form.

::

    ast.Module -> build -> resolve    names to registers, variables, parameters, labels, functions
                           blocks     a function's body as one list of instructions, with their scopes
                           typecheck  an instruction to a form of isa/ and its traits; operands, addresses, values: each
                                      operand against the form; calls: a call against its callee
                           linking    what only the whole module shows: its target, undefined names
               -> program.Program     immutable; analysis/ reads it, machine/ binds it

A text as compilers write it takes a shorter way: `ptx.outline` leaves the bodies of functions out of the tree, and `lines` reads
them. `shapes` finds `statements`, instructions with holes for registers, symbols and numbers, of which each is checked once;
`late` makes the code of a function when it is first asked for. Where anything is unusual or wrong, the text takes the way above.

All problems of a module are collected (`problems`) and raised together. `names` has scopes, and the names that PTX itself
defines; `snippet` makes a program of bare instructions. No opcode is named here: a form says what it takes.
"""
