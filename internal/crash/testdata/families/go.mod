module families

go 1.25

require github.com/greenroom-run/greenroom/guest-sdk/go v0.1.0

require github.com/greenroom-run/greenroom/abi v0.1.0 // indirect

replace (
	github.com/greenroom-run/greenroom/abi => ../../../../abi
	github.com/greenroom-run/greenroom/guest-sdk/go => ../../../../guest-sdk/go
)
