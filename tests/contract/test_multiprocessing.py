"""Tensors between processes started with spawn: as arguments, through queues, both ways, with device and flags."""

from __future__ import annotations


def test_tensors_cross_process_borders(run_python):
    done = run_python(
        """
        import torch.multiprocessing as mp

        def child(queue, done, x, parameter):
            queue.put((x.device.type, x.device.index, x.sum().item(), parameter.requires_grad, type(parameter).__name__))
            queue.put(x + 1)                       # back: a copy, on the same device
            queue.put([torch.full((n,), float(n), device="neuron") for n in range(3)])
            done.get(timeout=30)                   # a process must outlive what it shares

        if __name__ == "__main__":
            context = mp.get_context("spawn")
            queue, done = context.Queue(), context.Queue()
            x = torch.arange(3.0, device="neuron:1")
            parameter = torch.nn.Parameter(torch.ones(2, device="neuron"))
            process = context.Process(target=child, args=(queue, done, x, parameter))
            process.start()
            assert queue.get(timeout=30) == ("neuron", 1, 3.0, True, "Parameter")
            y = queue.get(timeout=30)
            assert y.device == torch.device("neuron:1") and y.tolist() == [1, 2, 3]
            assert [t.tolist() for t in queue.get(timeout=30)] == [[], [1], [2, 2]]
            done.put(None)
            process.join(30)
            assert process.exitcode == 0 and x.tolist() == [0, 1, 2]
            print("done")
        """,
        timeout=80,
    )
    assert done.stdout.strip() == "done"
