# SPDX-License-Identifier: Apache-2.0
"""A soak of the Infer Operator: random operations of users and hardware, checked against a model of what must exist.

`wishes` says what users want, `operations` change it at random from a seed, `expected` derives from it every object that must
be there, `observed` reads what is, `chaos` kills the operator meanwhile, and `runner` puts them together. None of this uses the
operator's own decisions; only names of labels are shared.
"""
