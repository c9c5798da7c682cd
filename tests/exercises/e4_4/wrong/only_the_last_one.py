# mistake: Only the last micro-batch counts: zero_grad inside the loop wipes out the
#   others. Call it once per step.
def accumulate(model, optimizer, microbatches):
    with model.no_sync():
        for images, labels in microbatches[:-1]:
            optimizer.zero_grad()
            loss = cross_entropy(model(images), labels)
            (loss / len(microbatches)).backward()
    optimizer.zero_grad()
    images, labels = microbatches[-1]
    loss = cross_entropy(model(images), labels)
    (loss / len(microbatches)).backward()
    optimizer.step()
