"""From syntax to a typed program: names, forms, operands."""
