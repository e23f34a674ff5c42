module extism-alarm

go 1.25
