// A client-go program of today against our API server.
module volcano.test/clientgo

go 1.26

require (
	k8s.io/api v0.36.1
	k8s.io/apimachinery v0.36.1
	k8s.io/client-go v0.36.1
)
