"""Where the elements of matrices and tensors are: in lanes' registers, in shared memory, in boxes. Functions of indices alone.

::

    algebra          shape:stride layouts, as CuTe writes them
    fragment         who holds which element; fragments, wmma_fragments, wgmma_fragments: of each instruction
    instructions     from a spelling to its fragments; pictures: text, SVG and HTML of them
    registers        gather registers into matrices by a fragment, and scatter
    descriptors, tensor_map, boxes, mbarriers     the words that describe shared memory and tensors
"""
