m_{{ pillar.seen }}: test.nop
