"""A Whisper: Fourier transform of a sound, encoder-decoder training, generation with cross-attention caches."""

from __future__ import annotations

# Float32, six steps of AdamW.
TRAINED = (1e-4, 1e-4)


def test_whisper_trains_and_transcribes_as_on_cpu(compare):
    result = compare("whisper", features=(1e-5, 1e-5), losses=TRAINED, tokens=None)
    assert result["losses"][-1] < result["losses"][0]
