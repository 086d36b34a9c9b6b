def told():
    return {'told': __opts__['id']}
