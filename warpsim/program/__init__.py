"""From a syntax tree to a typed program: resolves every name and matches every instruction to a form.

::

    ast.Module -> build -> resolve    names to registers, variables, parameters, labels, functions
                           blocks     a function's body as one list of instructions, with their scopes
                           typecheck  an instruction to a form of isa/ and its traits; operands: each operand against
                                      the form; calls: a call against its callee
                           linking    what only the whole module shows: its target, undefined names
               -> program.Program     immutable; analysis/ reads it, machine/ binds it

All problems of a module are collected (`problems`) and raised together. `names` has scopes, and the names that PTX itself
defines; `snippet` makes a program of bare instructions. No opcode is named here: a form says what it takes.
"""
