"""How long things take: the cost of one op on a simulated Neuron device. No torch here, and nothing imported eagerly."""
