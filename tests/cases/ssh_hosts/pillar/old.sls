colour: grey
