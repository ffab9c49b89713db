// A paid report from intent to bytes: submit once, poll, download; picks up whatever an earlier process left.
export {}
