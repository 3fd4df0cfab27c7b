"""From a syntax tree to a typed program: every name resolved, every instruction matched to a form.

::

    ast.Module -> build -> resolve    names to registers, variables, parameters, labels, functions
                           typecheck  an instruction to a form of isa/ and its traits; operands, fitting: each operand
                                      held against the form; calls: a call against the callee
               -> program.Program     frozen; what analysis/ reads and machine/ binds

All that is wrong with a module is collected (`problems`) and raised together. `names` has the names that PTX itself defines,
`snippet` makes a program of bare instructions. No opcode is named here: a form says what it takes.
"""
