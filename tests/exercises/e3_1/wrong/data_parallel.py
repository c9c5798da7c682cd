# hint: The outputs travel to device 0
# same as: outputs_gathered.py
def parallel_step(model, images, labels, devices):
    loss = cross_entropy(nn.DataParallel(model, device_ids=devices)(images), labels)
    loss.backward()
    return loss
