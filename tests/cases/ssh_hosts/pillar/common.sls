colour: {{ grains['oscodename'] }}-blue
