words: {{ ['b', 'a', 'b'] | unique | list | json }}
