"""Several heads from answers of many numbers, by way of one combination of these.

A random combination of the outputs is a sum of heads with scalar answers, and shows every W and key bias. With all
scores known, every answer asked on the way is linear in the values of each output, so these follow by least squares and
hardly cost a query. `values` chooses the combination and solves for the value maps, `learn` is the whole way.
"""

from .learn import learn_combined
