def ext_pillar(minion_id, pillar):
    return {}
